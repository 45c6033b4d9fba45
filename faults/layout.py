"""Where the fields of a sound GGUF file stand. Written apart from the reader that is attacked with it."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class Field:
    """`kind`: magic, version, count, length, text, type, value, dimension, offset or data."""

    name: str
    kind: str
    at: int
    size: int


class _Walk:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def field(self, name: str, kind: str, size: int) -> Field:
        self.at += size
        return Field(name, kind, self.at - size, size)

    def number(self, field: Field) -> int:
        return int.from_bytes(self.data[field.at : field.at + field.size], "little")

    def string(self, name: str) -> Iterator[Field]:
        yield (length := self.field(name, "length", 8))
        yield self.field(name, "text", self.number(length))

    def text(self, field: Field) -> str:
        return self.data[field.at : field.at + field.size].decode()


def fields(data: bytes) -> Iterator[Field]:
    """Every field in order; of a long array of strings only the first two."""
    walk = _Walk(data)
    yield walk.field("magic", "magic", 4)
    yield walk.field("version", "version", 4)
    yield (tensors := walk.field("tensors", "count", 8))
    yield (keys := walk.field("keys", "count", 8))
    for _ in range(walk.number(keys)):
        yield from _entry(walk)
    for _ in range(walk.number(tensors)):
        yield from _tensor(walk)
    start = -(-walk.at // 32) * 32
    yield Field("data", "data", start, len(data) - start)


def _entry(walk: _Walk) -> Iterator[Field]:
    length, text = walk.string("key")
    name = walk.text(text)
    yield length
    yield text
    yield (kind := walk.field(name, "type", 4))
    yield from _value(walk, name, walk.number(kind))


def _value(walk: _Walk, name: str, kind: int) -> Iterator[Field]:
    if kind == _STRING:
        yield from walk.string(name)
    elif kind == _ARRAY:
        yield (inner := walk.field(name, "type", 4))
        yield (count := walk.field(name, "count", 8))
        if walk.number(inner) == _STRING:
            for i in range(walk.number(count)):
                yield from (walk.string(f"{name}[{i}]") if i < 2 else _skipped(walk))
        else:
            yield walk.field(name, "value", walk.number(count) * _SIZES[walk.number(inner)])
    else:
        yield walk.field(name, "value", _SIZES[kind])


def _skipped(walk: _Walk) -> Iterator[Field]:
    list(walk.string(""))
    return iter(())


def _tensor(walk: _Walk) -> Iterator[Field]:
    length, text = walk.string("tensor")
    name = walk.text(text)
    yield length
    yield text
    yield (rank := walk.field(name, "count", 4))
    for i in range(walk.number(rank)):
        yield walk.field(f"{name}[{i}]", "dimension", 8)
    yield walk.field(name, "type", 4)
    yield walk.field(name, "offset", 8)


def entry(key: str, kind: int, value: bytes) -> bytes:
    """A key of the header as bytes."""
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value
