"""Damaged and hostile GGUF files, made from sound tiny ones: each by name, the same on every run."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random

from faults.layout import Field, entry, fields
from tests import ggufs
from tests.broken import BAD

Make = Callable[[Path], Path]  # writes into an empty folder; returns the file to open

_EXTREMES = (0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1)
_FRACTIONS = (0.0, -1.0, float("nan"), float("inf"), 1e-40)
_U32, _I32, _F32, _STRING, _ARRAY, _U64 = 4, 5, 6, 8, 9, 10


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    make: Make


def mutations(kind: str, sound: bytes, luck: Random, portion: int = 1) -> Iterator[Mutation]:
    """Of one sound file. Of the large families every `portion`-th member; those that are built anew are made of a
    llama only."""
    known = list(fields(sound))
    families = [_cuts(sound, known), _numbers(sound, known)]
    families += [_flips(sound, known, luck, 120), _swaps(sound, known, luck, 40), _weights(sound, known)]
    if kind == "llama":
        families += [_parameters(), _vocabularies(), _tensors(sound, known)]
    for family in families:
        for number, each in enumerate(family):
            if number % portion == 0:
                yield Mutation(f"{kind}: {each.name}", each.make)
    if kind == "llama":
        yield from _bombs(sound, known)
        yield from _shards()
        for name, (build, _) in BAD.items():
            yield Mutation(f"a file that is none: {name}", build)


def _bytes(data: bytes, folder: Path) -> Path:
    path = folder / "m.gguf"
    path.write_bytes(data)
    return path


def _patched(name: str, data: bytes, field: Field, value: bytes) -> Mutation:
    changed = data[: field.at] + value + data[field.at + len(value) :]
    return Mutation(name, partial(_bytes, changed))


def _cuts(data: bytes, known: list[Field]) -> Iterator[Mutation]:
    for field in known:
        at = field.at + (field.size // 2 if field.kind in ("text", "data") else 0)
        yield Mutation(f"cut at {field.kind} of {field.name}, byte {at}", partial(_bytes, data[:at]))
    yield Mutation("cut: the last byte", partial(_bytes, data[:-1]))


def _numbers(data: bytes, known: list[Field]) -> Iterator[Mutation]:
    for field in known:
        if field.kind in ("version", "count", "length", "type", "offset", "dimension", "value") and field.size <= 8:
            for extreme in _EXTREMES:
                if extreme < 1 << 8 * field.size:
                    value = extreme.to_bytes(field.size, "little")
                    yield _patched(f"{field.kind} of {field.name} is {extreme}", data, field, value)
            if field.kind == "value" and field.size == 4:
                for number in _FRACTIONS:
                    yield _patched(f"{field.name} is the fraction {number}", data, field, struct.pack("<f", number))


def _flips(data: bytes, known: list[Field], luck: Random, count: int) -> Iterator[Mutation]:
    """A random byte of the header, or a few."""
    end = known[-1].at
    for number in range(count):
        changed = bytearray(data)
        for _ in range(luck.choice((1, 1, 1, 2, 8))):
            changed[luck.randrange(end)] = luck.randrange(256)
        yield Mutation(f"random bytes, {number}", partial(_bytes, bytes(changed)))


def _swaps(data: bytes, known: list[Field], luck: Random, count: int) -> Iterator[Mutation]:
    """A stretch of the header that stands where another should."""
    end = known[-1].at
    for number in range(count):
        size, here, there = luck.randrange(4, 200), luck.randrange(end - 200), luck.randrange(end - 200)
        changed = data[:here] + data[there : there + size] + data[here + size :]
        yield Mutation(f"a stretch copied, {number}", partial(_bytes, changed))


def _built(name: str, **options: object) -> Mutation:
    return Mutation(name, lambda folder: ggufs.noise(folder / "m.gguf", **options))  # type: ignore[arg-type]


_PARAMETERS = (
    *("context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count"),
    *("attention.head_count_kv", "rope.dimension_count", "attention.key_length", "attention.value_length"),
    *("expert_count", "expert_used_count", "expert_group_count", "vocab_size", "attention.sliding_window"),
    *("nextn_predict_layers", "leading_dense_block_count", "rope.scaling.original_context_length"),
)
_FLOATS = ("attention.layer_norm_rms_epsilon", "rope.freq_base", "rope.scaling.factor", "rope.scale_linear")
_TOKENS = ("bos", "eos", "eot", "unknown", "padding", "seperator")


def _parameters() -> Iterator[Mutation]:
    """What no model has, in fields that are read as numbers."""
    for key in _PARAMETERS:
        for value in (0, 1, 3, 511, 70_000, 2**31, 2**32 - 1):
            yield _built(f"{key} is {value}", extra={f"llama.{key}": value})
        yield _built(f"{key} is a text", extra={f"llama.{key}": "many"})
        yield _built(f"{key} is a list", extra={f"llama.{key}": [2**31 - 1, 1, 0]})
    for key in _FLOATS:
        for value in _FRACTIONS:
            yield _built(f"{key} is {value}", extra={f"llama.{key}": value})
    for key in _TOKENS:
        for token in (271, 10**6, 2**32 - 1):
            yield _built(f"{key} token is {token}", extra={f"tokenizer.ggml.{key}_token_id": token})


def _weights(data: bytes, known: list[Field]) -> Iterator[Mutation]:
    start, size = known[-1].at, known[-1].size
    for name, number in (("NaN", float("nan")), ("infinite", float("inf")), ("huge", 3e38), ("zero", 0.0)):
        filled = struct.pack("<f", number) * (size // 4)
        yield Mutation(f"weights are {name}", partial(_bytes, data[:start] + filled))
    yield Mutation("weights are noise", partial(_bytes, data[:start] + Random(1).randbytes(size)))


def _bombs(data: bytes, known: list[Field]) -> Iterator[Mutation]:
    """Headers that are small to send and large to read."""
    keys, rest = next(f for f in known if f.name == "keys"), data[24:]

    def with_keys(count: int, more: bytes) -> bytes:
        old = int.from_bytes(data[keys.at : keys.at + 8], "little")
        aligned = data[: keys.at] + struct.pack("<Q", old + count) + more + rest
        return aligned + bytes(-len(more) % 32)

    yield Mutation(
        "200,000 keys",
        lambda f: _bytes(
            with_keys(200_000, b"".join(entry(f"k{i:06}", _U32, bytes(4)) for i in range(200_000))), f
        ),
    )
    yield Mutation(
        "the same key 100,000 times", lambda f: _bytes(with_keys(100_000, entry("k", _U32, bytes(4)) * 100_000), f)
    )
    array = struct.pack("<IQ", _U64, 2**24)
    yield Mutation(
        "an array of 2**24 numbers that are not there", lambda f: _bytes(with_keys(1, entry("a", _ARRAY, array)), f)
    )
    for count in (2**24, 2**24 + 1, 2**61, 2**64 - 1):
        empty = struct.pack("<IQ", _STRING, count)
        yield Mutation(f"{count} strings claimed", partial(_claim, with_keys, empty))
    strings = struct.pack("<IQ", _STRING, 2**20) + bytes(8 * 2**20)
    yield Mutation("a million empty strings", lambda f: _bytes(with_keys(1, entry("a", _ARRAY, strings)), f))
    nested = struct.pack("<IQ", _ARRAY, 2**20) + struct.pack("<IQ", _ARRAY, 1) * 64
    yield Mutation("arrays in arrays", lambda f: _bytes(with_keys(1, entry("a", _ARRAY, nested)), f))
    long = struct.pack("<Q", 32 << 20) + b"x" * (32 << 20)
    yield Mutation(
        "a string of 32 MB", lambda f: _bytes(with_keys(1, entry("general.description", _STRING, long)), f)
    )
    name = struct.pack("<Q", 8 << 20) + b"[/x]\x1b]52;c;YQ==\x07" * (8 << 20 >> 4)
    yield Mutation("a name of 8 MB", lambda f: _bytes(with_keys(1, entry("general.basename", _STRING, name)), f))
    yield Mutation("a gigabyte of holes", lambda f: _sparse(data, f))


def _claim(with_keys: Callable[[int, bytes], bytes], value: bytes, folder: Path) -> Path:
    return _bytes(with_keys(1, entry("a", _ARRAY, value)), folder)


def _sparse(data: bytes, folder: Path) -> Path:
    path = _bytes(data, folder)
    with path.open("r+b") as file:
        file.truncate(1 << 30)
    return path


def _tensors(data: bytes, known: list[Field]) -> Iterator[Mutation]:
    offsets = [f for f in known if f.kind == "offset"]
    names = [f for f in known if f.kind == "text" and f.name == "tensor"]
    zero = data
    for field in offsets:
        zero = zero[: field.at] + bytes(8) + zero[field.at + 8 :]
    yield Mutation("every tensor at the same place", partial(_bytes, zero))
    for field in offsets[1:4]:
        yield _patched(f"{field.name} overlaps the one before", data, field, struct.pack("<Q", 32))
        yield _patched(f"{field.name} is not aligned", data, field, struct.pack("<Q", 33))
    pairs = [(a, b) for a in names for b in names if a.at < b.at and a.size == b.size]
    for a, b in pairs[:4]:
        yield _patched(f"two tensors {a.at}", data, b, data[a.at : a.at + a.size])
    for value in (b"\xff" * 4, b"\0" * 4, b"\x1b[2J"):
        yield _patched(f"a tensor's name begins with {value!r}", data, names[0], value)


def _shards() -> Iterator[Mutation]:
    def parts(folder: Path) -> list[Path]:
        ggufs.noise(folder / "m.gguf", per_file=8)
        return sorted(folder.glob("*.gguf"))

    def cyclic(folder: Path) -> Path:
        first, _, third = parts(folder)
        third.unlink()
        third.symlink_to(first)
        return first

    def same_twice(folder: Path) -> Path:
        first, second, _ = parts(folder)
        shutil.copy(first, second)
        return first

    def looping(folder: Path) -> Path:
        first, second, _ = parts(folder)
        second.unlink()
        second.symlink_to(second)
        return first

    def folder_for_a_part(folder: Path) -> Path:
        first, second, _ = parts(folder)
        second.unlink()
        second.mkdir()
        return first

    def other_model(folder: Path) -> Path:
        first, second, _ = parts(folder)
        elsewhere = folder / "other"
        elsewhere.mkdir()
        ggufs.recur(elsewhere / "m.gguf").rename(second)
        return first

    def empty_part(folder: Path) -> Path:
        first, second, _ = parts(folder)
        second.write_bytes(b"")
        return first

    for make in (cyclic, same_twice, looping, folder_for_a_part, other_model, empty_part):
        yield Mutation(f"parts: {make.__name__.replace('_', ' ')}", make)
    for count in (2, 65_535, 2**16 - 2):
        yield Mutation(f"parts: {count} claimed", partial(_claimed_parts, count))


def _claimed_parts(count: int, folder: Path) -> Path:
    path = ggufs.noise(folder / "m.gguf", extra={"split.count": count, "split.no": 0})
    return path.rename(folder / f"m-00001-of-{count:05}.gguf")


def _vocabularies() -> Iterator[Mutation]:
    yield _built("a piece twice", pieces=ggufs.bpe(("twice", "twice")))
    yield _built("two empty pieces", pieces=ggufs.bpe(("", "")))
    yield _built("a piece of 1 MB", pieces=ggufs.bpe(("x" * (1 << 20),)))
    yield _built("pieces that are no UTF-8", pieces=ggufs.bpe(("\x1b]0;title\x07", "\u202e")))
    yield _built("no pieces", extra={"tokenizer.ggml.tokens": [0]})
    for key in ("scores", "token_type", "merges"):
        yield _built(f"{key} too short", extra={f"tokenizer.ggml.{key}": [1]})
    for model in ("llama", "bert", "t5", "rwkv", "plamo2", "nonsense", ""):
        yield _built(f"tokenizer {model!r}", extra={"tokenizer.ggml.model": model})
    for pre in ("default", "deepseek-llm", "nonsense"):
        yield _built(f"tokenizer.pre {pre!r}", extra={"tokenizer.ggml.pre": pre})
    for arch in (
        "bert",
        "t5",
        "rwkv6",
        "mamba",
        "gemma3",
        "qwen35",
        "deepseek2",
        "whisper",
        "clip",
        "llava",
        "\x1b[2J",
    ):
        yield _built(f"it says it is {arch!r}", arch=arch)
