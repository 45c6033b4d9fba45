"""Rendered text becomes token ids: earlier answers keep theirs, and control tokens that somebody typed do nothing.

Knows no template and no model; the vocabulary is handed in.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from localspec.chat.message import Message


class Vocab(Protocol):
    """What `encode` needs of a vocabulary. `special_texts` are the texts that become tokens only where `special`
    parsing is on; `pieces` are the bytes of each token, none for a control token."""

    @property
    def add_bos(self) -> bool: ...
    @property
    def bos(self) -> int | None: ...
    @property
    def eog(self) -> Container[int]: ...
    @property
    def pieces(self) -> Sequence[bytes]: ...
    @property
    def special_texts(self) -> Collection[str]: ...

    def tokenise(self, text: str, *, special: bool, bos: bool) -> list[int]: ...


@dataclass(frozen=True, slots=True)
class Span:
    """What the template made of message number `message`."""

    start: int
    end: int
    message: int


@dataclass(frozen=True, slots=True)
class Rendered:
    """`notices` are plain sentences for the user; `stops` end an answer in a format that the model may not know."""

    text: str
    notices: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    stops: tuple[str, ...] = ()


def encode(
    rendered: Rendered, messages: Sequence[Message], vocab: Vocab, written: Sequence[bytes] | None = None
) -> list[int]:
    """Token ids of the prompt, with the ids of earlier answers as they were generated and one BOS where the model
    wants one. But for that, and for control tokens inside of messages, this is the whole text encoded at once.
    `written` are the bytes of each token in an answer, where they are not `vocab.pieces`."""
    encoder = _Encoder(rendered, vocab)
    ids: list[int] = []
    at = 0
    for span in rendered.spans:
        message = messages[span.message]
        answer = _answer(message, vocab.pieces if written is None else written, vocab.eog)
        if answer and rendered.text[span.start : span.end] == message.text and encoder.can_break(span.end):
            ids += [*encoder.between(at, span.start), *answer]
            at = span.end
    return _with_one_bos(ids + encoder.between(at, len(rendered.text)), vocab)


def _answer(message: Message, written: Sequence[bytes], eog: Container[int]) -> tuple[int, ...]:
    """The ids of an answer if they say its text and nothing else (a stop string was cut off; another model has
    other ids). The end token is left to the template, which prints its own."""
    ids = message.token_ids
    if ids and ids[-1] in eog:
        ids = ids[:-1]
    if not ids or max(ids) >= len(written):
        return ()
    said = b"".join(written[i] for i in ids).decode("utf-8", "replace")
    return ids if said == message.text else ()


class _Encoder:
    """Encodes stretches of one text. A tokeniser cuts at control tokens first, so what stands between two of them
    can be encoded by itself."""

    def __init__(self, rendered: Rendered, vocab: Vocab) -> None:
        self._text, self._vocab = rendered.text, vocab
        self._typed: list[tuple[int, int]] = []  # control tokens' texts inside of messages
        self._real: list[tuple[int, int]] = []
        starts = [span.start for span in rendered.spans]
        for start, end in _controls(rendered.text, vocab.special_texts):
            near = bisect_left(starts, end) - 1
            typed = near >= 0 and rendered.spans[near].end > start
            (self._typed if typed else self._real).append((start, end))

    def can_break(self, at: int) -> bool:
        """Can the text from here on be encoded by itself? Some tokenisers put a space before every text; before
        a control token that does no harm."""
        index = bisect_left(self._real, (at, at))
        if at == len(self._text) or (index < len(self._real) and self._real[index][0] == at):
            return True
        return b"".join(self._vocab.pieces[i] for i in self._encode("a", special=False)) == b"a"

    def between(self, low: int, high: int) -> list[int]:
        """The ids of text[low:high]; with special parsing off where somebody typed a control token."""
        if not any(low <= start and end <= high for start, end in self._typed):
            return self._encode(self._text[low:high])
        inside = self._real[bisect_left(self._real, (low, low)) : bisect_left(self._real, (high, high))]
        ids: list[int] = []
        at = low
        for (control, start), (end, _) in pairwise([(low, low), *inside, (high, high)]):
            if any(start <= c[0] and c[1] <= end for c in self._typed):
                first = start + self._swallowed(self._text[control:start], self._text[start:end])
                ids += self._encode(self._text[at:first])
                ids += self._encode(self._text[first:end], special=False)
                at = end
        return ids + self._encode(self._text[at:high])

    def _swallowed(self, control: str, stretch: str) -> int:
        """How much white space a control token takes with it on its right."""
        blank = stretch[: len(stretch) - len(stretch.lstrip())]
        if control and blank and self._encode(control) == self._encode(control + blank):
            return len(blank)
        return 0

    def _encode(self, text: str, *, special: bool = True) -> list[int]:
        return self._vocab.tokenise(text, special=special, bos=False) if text else []


def _controls(text: str, special_texts: Collection[str]) -> Iterator[tuple[int, int]]:
    """Where the texts of control tokens stand, the longest where several begin."""
    known = frozenset(special_texts) - {""}
    if not known:
        return
    # Some vocabularies have thousands: look only where one can begin, and compare by length.
    begins = re.compile("[" + re.escape("".join({t[0] for t in known})) + "]")
    lengths = sorted({len(t) for t in known}, reverse=True)
    end = 0
    for match in begins.finditer(text):
        start = match.start()
        found = (text[start : start + n] for n in lengths if text[start : start + n] in known)
        if start >= end and (control := next(found, "")):
            end = start + len(control)
            yield start, end


def _with_one_bos(ids: list[int], vocab: Vocab) -> list[int]:
    """A template may print BOS itself, or not, or print what the tokeniser adds as well."""
    bos = vocab.bos
    if not vocab.add_bos or bos is None:
        return ids
    printed = next((n for n, token in enumerate(ids) if token != bos), len(ids))
    return [bos, *ids[printed:]]
