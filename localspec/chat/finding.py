"""Which session a person means: by the beginning of its id, or by its title; and how old it is in words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from localspec.chat.store import Row
from localspec.errors import LocalspecError, UnknownName, UsageError

_SHOWN = 10  # titles that an error lists


def latest_session(rows: Sequence[Row]) -> Row:
    """`rows` begin with the latest."""
    if not rows:
        raise LocalspecError("There is no session to go on with yet.", "Begin one with localspec chat.")
    return rows[0]


def named_session(rows: Sequence[Row], name: str) -> Row:
    latest_session(rows)
    wanted = name.strip().casefold()
    found = [row for row in rows if row.id == wanted or row.title.casefold() == wanted]
    found = found or [row for row in rows if wanted and row.id.startswith(wanted)]
    if len(found) > 1:
        ids = ", ".join(row.id for row in found[:_SHOWN])
        raise UsageError(f"{len(found)} sessions are meant by {name!r}.", f"Give one of these ids: {ids}.")
    if not found:
        titles = [row.title for row in rows]
        raise UnknownName("session", name, get_close_matches(name, titles, n=1, cutoff=0.5) or titles[:_SHOWN])
    return found[0]


def ago(seconds: float) -> str:
    """How long ago, in one unit: `5 min`, `3 h`, `12 d`. A clock that was set back says `now`."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return "now"
