"""Sessions and found messages as lines of a list, cut to its width. Titles and messages are other people's words."""

from __future__ import annotations

import re

from textual.content import Content

from localspec.chat.finding import ago
from localspec.chat.text import one_line
from localspec.conversation import Hit, Row

_WIDE = 90  # columns from which on the model has room
_MODEL = 24
_LEAST = 12  # columns that a title keeps


def row(session: Row, width: int, now: float, *, mark: str = "") -> Content:
    """Title, then messages, age and (where there is room) model. `mark`: `open`, or what is asked about it."""
    count = f"{session.messages:,} message{'s' if session.messages != 1 else ''}"
    facts = f"{count:>13}  {ago(now - session.updated):>6}"
    if width >= _WIDE:
        facts += f"  {one_line(session.model, _MODEL):<{_MODEL}}"
    label = f"  {mark}" if mark else ""
    room = max(_LEAST, width - len(facts) - len(label) - 1)
    title = Content(one_line(session.title, room)).truncate(room, ellipsis=True)
    gap = " " * max(1, width - title.cell_length - len(label) - len(facts))
    return Content.assemble(title, (label, "$warning"), gap, (facts, "$foreground-muted"))


def hit(found: Hit, width: int, now: float, wanted: str) -> Content:
    """The matching line, and under it where it stands."""
    who = "You" if found.role == "user" else "Answer"
    line = Content(one_line(found.line, max(_LEAST, width)))
    for word in re.findall(r"\w+", wanted) or [wanted]:
        line = line.highlight_regex(re.compile(re.escape(word), re.IGNORECASE), style="bold $primary")
    where = f"  {who} in {one_line(found.title, max(_LEAST, width - 24))} · {ago(now - found.updated)}"
    return Content.assemble(line.truncate(width, ellipsis=True), "\n", (where, "$foreground-muted"))
