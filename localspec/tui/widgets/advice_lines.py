"""Does drafting pay here? The choice in effect and its reason, and the advisor's sentence with its curve."""

from __future__ import annotations

from textwrap import wrap

from textual.content import Content

from localspec.conversation import Conversation
from localspec.spec.advice import Advice
from localspec.tui.charts import gains

_MUTED = "$foreground-muted"


def why_lines(chat: Conversation, width: int) -> list[Content]:
    """The last choice of an automatic method."""
    return [Content(row) for row in wrap(f"{chat.method}: {chat.why}", width)] if chat.running and chat.why else []


def advice_lines(chat: Conversation, width: int) -> list[Content]:
    """About each drafter that was measured: what the last answer ended with."""
    answers = (node.answer for node in reversed(chat.answers) if node.answer)
    latest = next((answer.advice for answer in answers if answer.advice), ())
    if not latest:
        return []
    lines = [Content.assemble(("DOES IT PAY", f"bold {_MUTED}"), ("  gain by draft length", _MUTED))]
    for advice in latest:
        lines += [*map(Content, wrap(advice.sentence, width)), *_curve(advice)]
    return lines


def _curve(advice: Advice) -> list[Content]:
    if not advice.speedups:
        return []
    count, bars = len(advice.speedups), gains(advice.speedups)
    best = f"{max(advice.speedups):.2f}x at {advice.speedups.index(max(advice.speedups)) + 1}"
    colour = "$success" if advice.best else _MUTED
    return [Content.assemble(("1 ", _MUTED), (bars, colour), (f" {count}", _MUTED), f"   {best}")]
