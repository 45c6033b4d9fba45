"""What the model answered before, in other conversations: a bounded store of token ids that `suffix` drafts from.

Every place of the text is sorted by the three tokens that stand there, so the places where the context's last three
stood before are one binary search away. Sorting a quarter of a million tokens takes some twenty milliseconds, so it
is done anew after each answer, and only the answers themselves are kept on the disk.
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from localspec.errors import LocalspecError
from localspec.spec.types import Token, Tokens

LIMIT = 1 << 18  # tokens that are kept: some five hundred answers, a megabyte on the disk
LONGEST = 32  # a longer match is not a better one, nor is a longer draft
FLOOR = 0.3  # end the draft where it is less likely than this to survive as a whole
_PLACES = 32  # candidates looked at: the latest ones; bounds the time per round
_KEY = 3  # the shortest match
_BREAK = -1  # stands between two answers: no match reaches across it, no draft goes beyond
_SIZE = 4  # bytes of an id
_BITS = 21  # so many of an id go into the number for three; no vocabulary has two million pieces
_MAGIC = b"localspec corpus 1 "

Ids = NDArray[np.int32]
_EDGE = np.full(LONGEST + 1, _BREAK, np.int32)  # so that no look back or ahead leaves the text


class Guess(NamedTuple):
    """`expected` is how many of the tokens should survive; `evidence` the first one's certainty in eighths."""

    tokens: tuple[Token, ...] = ()
    evidence: int = 0
    expected: float = 0.0


class Corpus:
    """Answers in the ids of one vocabulary, which `vocabulary` names, in the order they were given; each once, and
    the oldest dropped when there are more than `limit` tokens."""

    def __init__(
        self, vocabulary: str, n_vocab: int, answers: Iterable[Tokens] = (), *, limit: int = LIMIT
    ) -> None:
        self._vocabulary, self._n_vocab, self._limit = vocabulary, n_vocab, limit
        self._fill(answers)

    @property
    def answers(self) -> tuple[Ids, ...]:
        return self._answers

    @classmethod
    def load(cls, path: Path, vocabulary: str, n_vocab: int, *, limit: int = LIMIT) -> Corpus:
        """What `save` wrote; empty where there is no file yet. Raises LocalspecError."""
        return cls(vocabulary, n_vocab, _read(path, vocabulary, n_vocab), limit=limit)

    def save(self, path: Path) -> None:
        """All at once or not at all, readable by this user alone. What another process saved in the meantime stays.
        Raises LocalspecError."""
        others = _read(path, self._vocabulary, self._n_vocab)
        try:
            _write(path, self._vocabulary, _bounded((*others, *self._answers), self._limit))
        except OSError as error:
            raise _failed(path, f"can't be written ({error.strerror})") from None

    def remember(self, answer: Tokens) -> None:
        """Add an answer, once it is out: the whole is sorted again."""
        self._fill((*self._answers, answer))

    def guess(self, context: Ids, limit: int) -> Guess:
        """What followed most often where the longest end of the context stands here: three tokens of it or more."""
        places, match = self._places(context[-LONGEST:])
        futures, total = self._futures(places, min(limit, LONGEST)), len(places)
        agreed = _agreed(futures)
        tokens: list[Token] = []
        survival, expected, evidence = 1.0, 0.0, 0
        while futures and len(tokens) < len(futures[0][0]):
            at = len(tokens)
            best, times = (futures[0][0][at], total) if at < agreed else _most_frequent(futures, at)
            # A single witness counts more the longer the match.
            chance = times / (total + 1 / (match + at))
            survival *= chance
            if best == _BREAK or survival < FLOOR:
                break
            evidence = evidence if tokens else int(8 * chance)
            expected += survival
            tokens.append(best)
            if times < total:
                futures, total = [future for future in futures if future[0][at] == best], times
                agreed = _agreed(futures)
        return Guess(tuple(tokens), evidence, expected)

    def _fill(self, answers: Iterable[Tokens]) -> None:
        self._answers = _bounded(answers, self._limit)
        text = np.concatenate([_EDGE, *(part for ids in self._answers for part in (ids, _EDGE[:1])), _EDGE])
        inside = text != _BREAK
        # Behind three tokens of one answer that goes on after them.
        places = np.flatnonzero(inside[:-3] & inside[1:-2] & inside[2:-1] & inside[3:]) + 3
        wide = text.astype(np.int64)
        keys = _key(wide[places - 3], wide[places - 2], wide[places - 1])
        order = np.argsort(keys, kind="stable")  # equal keys stay in the order of the text
        # Bytes are cut and compared several times faster than arrays, and single items of a memoryview come so too.
        self._text = text.tobytes()
        self._sorted, self._behind = keys[order].data, places[order].data

    def _places(self, end: Ids) -> tuple[list[int], int]:
        """Behind which places the longest match stands, the latest first, and its length."""
        found: list[int] = []
        if len(end) < _KEY:
            return found, 0
        key, tail = _key(*end[-_KEY:].tolist()), end.astype(np.int32).tobytes()
        high = bisect_right(self._sorted, key)
        low, longest = max(bisect_left(self._sorted, key, 0, high), high - _PLACES), _KEY
        for place in self._behind[low:high].tolist()[::-1]:
            if self._matches(place, tail, longest):
                match = self._match(place, tail, longest)
                if match > longest:
                    found, longest = [], match
                found.append(place)
        return found, longest

    def _match(self, place: int, tail: bytes, least: int) -> int:
        """How many tokens before this place are the last ones of `tail`: `least` of them are."""
        most = len(tail) // _SIZE
        if self._matches(place, tail, most):
            return most
        return bisect_left(range(most), True, least, key=lambda n: not self._matches(place, tail, n + 1))

    def _matches(self, place: int, tail: bytes, count: int) -> bool:
        return self._text[(place - count) * _SIZE : place * _SIZE] == tail[-count * _SIZE :]

    def _futures(self, places: list[int], length: int) -> list[tuple[list[Token], int]]:
        """What stands behind these places, each once, and at how many of them."""
        times: dict[bytes, int] = {}
        for place in places:
            future = self._text[place * _SIZE : (place + length) * _SIZE]
            times[future] = times.get(future, 0) + 1
        return [(memoryview(future).cast("i").tolist(), count) for future, count in times.items()]


_Number = TypeVar("_Number", int, NDArray[np.int64])


def _key(first: _Number, second: _Number, third: _Number) -> _Number:
    return first << 2 * _BITS | second << _BITS | third


def _agreed(futures: list[tuple[list[Token], int]]) -> int:
    """How many tokens all of them begin with."""
    if not futures:
        return 0
    paths = [tokens for tokens, _ in futures]
    first, last = min(paths), max(paths)  # what these two share, all share
    return next((i for i, (a, b) in enumerate(zip(first, last, strict=True)) if a != b), len(first))


def _most_frequent(futures: list[tuple[list[Token], int]], at: int) -> tuple[Token, int]:
    """The most frequent token there, and how often it comes; of equals the first."""
    times: dict[Token, int] = {}
    for tokens, count in futures:
        times[tokens[at]] = times.get(tokens[at], 0) + count
    best = max(times, key=times.__getitem__)
    return best, times[best]


def _bounded(answers: Iterable[Tokens], limit: int) -> tuple[Ids, ...]:
    """Each answer once, where it stands last, and of those the latest that fit."""
    kept: dict[bytes, Ids] = {}
    for answer in answers:
        ids = np.array(answer[-limit:], np.int32)
        kept.pop(ids.tobytes(), None)
        kept[ids.tobytes()] = ids
    kept.pop(b"", None)
    total = np.cumsum([ids.size for ids in reversed(kept.values())])
    first = len(kept) - int(np.searchsorted(total, limit, side="right"))
    return tuple(kept.values())[first:]


def _read(path: Path, vocabulary: str, n_vocab: int) -> list[Ids]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise _failed(path, f"can't be read ({error.strerror})") from None
    head, _, body = data.partition(b"\n")
    if not head.startswith(_MAGIC) or len(body) % 4:
        raise _failed(path, "is damaged")
    if head != _MAGIC + vocabulary.encode():
        raise _failed(path, "was written for another vocabulary")
    ids = np.frombuffer(body, "<i4").astype(np.int32)
    if ids.size and not _BREAK <= ids.min() <= ids.max() < n_vocab:
        raise _failed(path, "is damaged")
    breaks = np.flatnonzero(ids == _BREAK)
    return [part[part != _BREAK] for part in np.split(ids, breaks)]


def _write(path: Path, vocabulary: str, answers: tuple[Ids, ...]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(prefix=path.name, dir=path.parent)  # for this user alone
    try:
        with open(descriptor, "wb") as file:
            file.write(_MAGIC + vocabulary.encode() + b"\n")
            for ids in answers:
                file.write(np.append(ids, np.int32(_BREAK)).astype("<i4").tobytes())
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise


def _failed(path: Path, what: str) -> LocalspecError:
    return LocalspecError(f"The file of earlier answers, {path}, {what}.", "Delete it; it is made anew.")
