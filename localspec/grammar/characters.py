"""Characters of a grammar: how they are spelt, and which bytes they are in UTF-8.

Tokens are pieces of bytes that may end inside a character, so everything behind the parser works on bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from localspec.errors import UsageError

Range: TypeAlias = tuple[int, int]  # inclusive
LAST = 0x10FFFF
_SURROGATES = (0xD800, 0xDFFF)  # no characters, and not in UTF-8
_SIZES = (0x7F, 0x7FF, 0xFFFF)  # the last code points of one, two and three bytes
_ESCAPES = {"t": "\t", "r": "\r", "n": "\n"} | {mark: mark for mark in '\\"[]-'}
_HEX = {"x": 2, "u": 4, "U": 8}


class GrammarError(UsageError):
    """A grammar that can't be used, and the line that says why."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(f"line {line}: {message}", "Correct the grammar; llama.cpp's guide to GBNF has examples.")
        self.line = line


def characters(body: str, line: int) -> Iterator[str]:
    return (character for character, _ in spelt(body, line))


def spelt(body: str, line: int) -> Iterator[tuple[str, bool]]:
    """Each character of a literal or class, and whether a backslash stood before it."""
    at = 0
    while at < len(body):
        if body[at] != "\\":
            yield body[at], False
            at += 1
        elif (kind := body[at + 1]) in _ESCAPES:
            yield _ESCAPES[kind], True
            at += 2
        else:
            digits = body[at + 2 : at + 2 + _HEX.get(kind, 0)]
            yield _coded(kind, digits, line), True
            at += 2 + len(digits)


def _coded(kind: str, digits: str, line: int) -> str:
    if kind not in _HEX or not re.fullmatch(rf"[0-9A-Fa-f]{{{_HEX[kind]}}}", digits):
        raise GrammarError(line, f"\\{kind}{digits} is no escape.")
    code = int(digits, 16)
    if code > LAST or _SURROGATES[0] <= code <= _SURROGATES[1]:
        raise GrammarError(line, f"\\{kind}{digits} is no character.")
    return chr(code)


def complement(ranges: list[Range]) -> list[Range]:
    """Every other character but NUL, which no text has unless a grammar names it."""
    rest, start = [], 1
    for low, high in sorted(ranges):
        if start < low:
            rest.append((start, low - 1))
        start = max(start, high + 1)
    return [*rest, (start, LAST)] if start <= LAST else rest


def byte_ranges(low: int, high: int) -> Iterator[tuple[Range, ...]]:
    """The UTF-8 of the code points low..high, as sequences of byte ranges that don't overlap."""
    first, last = _SURROGATES
    if low <= last and high >= first:
        pieces = [(low, first - 1), (last + 1, high)]
        for piece in pieces:
            if piece[0] <= piece[1]:
                yield from byte_ranges(*piece)
        return
    cut = next((end for end in _SIZES if low <= end < high), None) or _cut(low, high)
    if cut is not None:
        yield from byte_ranges(low, cut)
        yield from byte_ranges(cut + 1, high)
    else:
        yield tuple(zip(chr(low).encode(), chr(high).encode(), strict=True))


def _cut(low: int, high: int) -> int | None:
    """Where to split a range of one size so that in each part every byte runs over a range of its own."""
    for size in range(1, len(chr(high).encode())):
        tail = (1 << 6 * size) - 1
        if low | tail < high | tail:
            if low & tail:
                return low | tail
            if high & tail != tail:
                return (high & ~tail) - 1
    return None
