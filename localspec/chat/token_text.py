"""An answer token by token as plain text: who proposed each one, said by brackets alone. Knows no screen.

The brackets are those of a word diff: what was rejected stands as `[-...-]` before the `{+...+}` that took its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from localspec.chat.answer import Answer
from localspec.chat.message import Piece
from localspec.chat.text import visible

NEWLINE, TAB, NO_TEXT = "↵", "⇥", "∅"
OWN = ("bonus", "correction")
PLAIN = "plain"


def letters(sources: Iterable[str]) -> dict[str, str]:
    """A letter for each drafter, its first one that no other has: lookup L, draft D, dflash F."""
    given: dict[str, str] = {}
    for source in sources:
        free = (c.upper() for c in source if c.isalnum() and c.upper() not in given.values())
        given[source] = next(free, "?")
    return given


def token_text(answer: Answer) -> str:
    """The answer with its marks."""
    drafters = _drafters(answer)
    named = letters(drafters) if len(drafters) > 1 else {}
    return "".join(_marked(answer.pieces, named))


def legend(answer: Answer) -> list[str]:
    """What the marks mean, of those only that this answer has."""
    drafters, origins = _drafters(answer), {piece.provenance for piece in answer.pieces}
    lines = []
    if len(drafters) == 1:
        lines.append(f"{{a|b}} drafted by {drafters[0]} and accepted by the model, a bar between tokens")
    for source, letter in letters(drafters).items() if len(drafters) > 1 else ():
        lines.append(f"{{{letter}:a|b}} drafted by {source} and accepted by the model, a bar between tokens")
    if any(piece.ghost for piece in answer.pieces):
        lines.append("[-a-] rejected, right before what the model put in its place")
    if origins & set(OWN):
        lines.append("{+a+} the model's own: a bonus after a draft that was right to its end, or a correction")
    if PLAIN in origins:
        lines.append("without a mark: plain decoding, nothing was drafted")
    return [*lines, f"{NEWLINE} a line feed, {TAB} a tab, {NO_TEXT} a token without a text of its own"]


def _drafters(answer: Answer) -> list[str]:
    """Those who had a token accepted, in order."""
    origins = (piece.provenance for piece in answer.pieces)
    return list(dict.fromkeys(origin for origin in origins if origin not in (*OWN, PLAIN)))


def _marked(pieces: Iterable[Piece], named: dict[str, str]) -> Iterator[str]:
    for origin, group in groupby(pieces, key=lambda piece: piece.provenance):
        run = list(group)
        if origin in OWN or origin == PLAIN:
            for piece in run:
                yield f"[-{_shown(piece.ghost)}-]" if piece.ghost else ""
                yield (
                    f"{{+{_shown(piece.text)}+}}{_feed(piece)}" if origin in OWN else _shown(piece.text, ends=True)
                )
        else:
            letter = f"{named[origin]}:" if origin in named else ""
            tokens = "|".join(_shown(piece.text) for piece in run)
            yield f"{{{letter}{tokens}}}" + _feed(*run)


def _shown(text: str, *, ends: bool = False) -> str:
    """On one line; `ends`: with the line feeds themselves behind their marks."""
    shown = visible(text).replace("\t", TAB).replace("\n", f"{NEWLINE}\n" if ends else NEWLINE)
    return shown or NO_TEXT


def _feed(*pieces: Piece) -> str:
    """A line ends behind the bracket, so that the text keeps its lines."""
    return "\n" if any("\n" in visible(piece.text) for piece in pieces) else ""
