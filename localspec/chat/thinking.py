"""What a model thinks before it answers, told apart from the answer. Pure functions over the text so far.

Both parts only ever grow while the text grows, so that a stream can be drawn by appending; the beginning of a mark is
held back until it is known to be one. Knows no template: some end the prompt inside of a thinking block, and then
`opened` says so. Knows no vocabulary: where marks are control tokens, `spelt` says which to write out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from localspec.chat.message import Message, Piece

MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<reasoning>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("[THINK]", "[/THINK]"),
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("◁think▷", "◁/think▷"),  # Kimi-VL
)
# gpt-oss writes one message after another, each on a channel: thoughts on `analysis`, the answer on `final`.
CHANNEL, MESSAGE, START, END = "<|channel|>", "<|message|>", "<|start|>", "<|end|>"
_TOKENS = (*MARKS, ("<|channel>", "<channel|>"), (CHANNEL, MESSAGE, START, END))
_HEAD = re.compile(r"(?:<\|start\|>[^<]{0,16})?<\|channel\|>(?P<channel>\w{1,12})[^<]{0,16}<\|message\|>")
_LONGEST_HEAD = 80  # what is longer can't become one


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
    if begun.startswith(CHANNEL):
        return _channels(text, len(text) - len(begun), ended)
    for opening, closing in MARKS:
        if begun.startswith(opening):
            return _inside(text, len(text) - len(begun) + len(opening), (closing,), ended)
    if not (opened or ended) and any(mark.startswith(begun) for mark in (CHANNEL, *(each for each, _ in MARKS))):
        return Parts("", "", begins=len(text))  # it may become a mark
    closings = tuple(closing for _, closing in MARKS)
    if opened or any(f"\n{closing}" in text for closing in closings):  # on a line of its own, not spoken of
        return _inside(text, 0, closings, ended)
    return Parts("", text)


def spelt(special: Collection[str]) -> list[str]:
    """Which of a vocabulary's control tokens are marks, that a text must show. A mark alone means something else."""
    return [mark for marks in _TOKENS if all(each in special for each in marks) for mark in marks]


def reread(message: Message) -> Message:
    """What later turns read of an answer in channels: the final one, which is all that its template takes. Of other
    marks templates know what to do."""
    if message.role != "assistant" or not message.text.lstrip().startswith(CHANNEL):
        return message
    return replace(message, text=parts(message.text, ended=True).said, token_ids=())


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


def _channels(text: str, at: int, ended: bool) -> Parts:
    """Everything before the channel `final` is a thought; what follows it is the answer, marks that it speaks of
    included."""
    thoughts = []
    while (head := _HEAD.match(text, at)) and head["channel"] != "final":
        thought, at = _message(text, head.end(), ended)
        thoughts.append(thought.strip())
    thought = "\n\n".join(filter(None, thoughts))
    begins = head.end() if head else at
    if head is None and _may_be_head(text[at:]):
        return Parts(thought, "", thinking=True, begins=len(text))
    said = text[begins:].lstrip().removesuffix(END)
    begins = text.index(said, begins)
    return Parts(thought, said if ended else said[: len(said) - _held(said, (END,))], begins=begins)


def _message(text: str, start: int, ended: bool) -> tuple[str, int]:
    """The message that begins at `start`, as far as it is there, and where it and its mark end."""
    end = text.find(END, start)
    if end >= 0:
        return text[start:end], end + len(END)
    held = 0 if ended else _held(text[start:], (END,))
    return text[start : len(text) - held], len(text)


def _may_be_head(rest: str) -> bool:
    return len(rest) < _LONGEST_HEAD and any(mark.startswith(rest[: len(mark)]) for mark in (START, CHANNEL))


def _held(text: str, closings: tuple[str, ...]) -> int:
    """How many characters at the end may be the beginning of a closing mark."""
    longest = max(map(len, closings)) - 1
    for size in range(min(longest, len(text)), 0, -1):
        if any(closing.startswith(text[-size:]) for closing in closings):
            return size
    return 0
