"""What a user types to find a message, as SQL. Knows no session.

The index knows whole words and their beginnings. Scripts that leave no space between words have none that it could
know, and neither has `->`: for these the text is searched as it stands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELDS = "sessions.id, sessions.title, sessions.updated, nodes.id, nodes.role"
_WORDS = re.compile(r"\w+")
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_AROUND = 60  # characters of the text on either side of what was found

INDEXED = f"""SELECT {_FIELDS}, snippet(words, 0, '', '', '…', 20) FROM words JOIN nodes ON nodes.key = words.rowid
    JOIN sessions ON sessions.key = nodes.session WHERE words MATCH ? ORDER BY words.rowid DESC LIMIT ?"""
SCANNED = f"""SELECT {_FIELDS}, substr(text, max(1, instr(text, ?) - {_AROUND}), {2 * _AROUND}) FROM nodes
    JOIN sessions ON sessions.key = nodes.session WHERE instr(text, ?) > 0 ORDER BY nodes.key DESC LIMIT ?"""


@dataclass(frozen=True, slots=True)
class Query:
    sql: str
    values: tuple[str, ...]  # the last value of `sql` is how many to find


def looked_for(text: str) -> Query | None:
    """None where nothing is looked for."""
    text = text.strip().encode("utf-8", "replace").decode()
    words = _WORDS.findall(text)
    if not text:
        return None
    if not words or _UNSPACED.search(text):
        return Query(SCANNED, (text, text))
    return Query(INDEXED, (" ".join(f'"{word}"' for word in words) + "*",))
