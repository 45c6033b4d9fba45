"""What a model thinks before it answers, told apart from the answer. Pure functions over the text so far.

Both parts only ever grow while the text grows, so that a stream can be drawn by appending; the beginning of a mark is
held back until it is known to be one. Knows no template: some end the prompt inside of a thinking block, and then
`opened` says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from localspec.chat.message import Piece

MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]"),
)


@dataclass(frozen=True, slots=True)
class Parts:
    """`thinking`: the block is not closed yet. `begins` is where the answer begins in the text."""

    thought: str
    said: str
    thinking: bool = False
    begins: int = 0


def opens(prompt: str) -> bool:
    """Does the answer to this prompt begin inside of a thinking block?"""
    return prompt.rstrip().endswith(tuple(opening for opening, _ in MARKS))


def parts(text: str, *, opened: bool = False, ended: bool = False) -> Parts:
    """`ended`: nothing more comes, so that nothing is held back."""
    begun = text.lstrip()
    for opening, closing in MARKS:
        if begun.startswith(opening):
            return _inside(text, len(text) - len(begun) + len(opening), (closing,), ended)
        if not opened and not ended and opening.startswith(begun):
            return Parts("", "", begins=len(text))  # it may become a mark
    closings = tuple(closing for _, closing in MARKS)
    if opened or any(f"\n{closing}" in text for closing in closings):  # on a line of its own, not spoken of
        return _inside(text, 0, closings, ended)
    return Parts("", text)


def tokens_before(pieces: Iterable[Piece], end: int) -> int:
    """How many tokens the first `end` characters took."""
    length = count = 0
    for piece in pieces:
        if length >= end:
            break
        length += len(piece.text)
        count += 1
    return count


def _inside(text: str, start: int, closings: tuple[str, ...], ended: bool) -> Parts:
    found = [(at, closing) for closing in closings if (at := text.find(closing, start)) >= 0]
    if found:
        at, closing = min(found)
        said = text[at + len(closing) :].lstrip()
        return Parts(text[start:at].strip(), said, begins=len(text) - len(said))
    thought = text[start:] if ended else text[start : len(text) - _held(text[start:], closings)]
    return Parts(thought.strip(), "", thinking=True, begins=len(text))


def _held(text: str, closings: tuple[str, ...]) -> int:
    """How many characters at the end may be the beginning of a closing mark."""
    longest = max(map(len, closings)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(closing.startswith(text[-size:]) for closing in closings):
            return size
    return 0
