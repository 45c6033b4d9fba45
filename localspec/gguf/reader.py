"""Bytes -> Header. No length is trusted before it was compared with the size of the file, and the strings of a
vocabulary are only walked over: a header with 262,144 pieces takes a fraction of a second."""

from __future__ import annotations

import mmap
import os
import stat
import struct
from hashlib import sha256
from types import MappingProxyType

from localspec.errors import ModelLoadError
from localspec.gguf.header import Header, Tensor, Value, Vocabulary

MAX_ITEMS = 1 << 24  # more keys, tensors or pieces than any model has
KEPT_ITEMS = 4096  # longer arrays (scores, token types) are walked over
AGAIN = "Download it again; the last download was probably interrupted."

# type id -> struct format, as in the GGUF specification
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9

_NOT_GGUF = (
    (b"<", "it is a web page, not a model", "Use the file's download link, not the page that shows it."),
    (b"version https://git-lfs", "it is a Git LFS pointer, not the model itself", "Fetch it with `git lfs pull`."),
    (b"PK\x03\x04", "it is a PyTorch or zip archive, not a GGUF file", "Look for a GGUF version of this model."),
    (b"tjgg", "it is in the format that llama.cpp used before GGUF", "Look for a GGUF version of this model."),
)


def read(path: str) -> Header:
    """The header alone; the data behind it may be cut off. Raises ModelLoadError."""
    try:
        with _open(path) as data:
            return _parse(path, data)
    except Bad as bad:
        raise ModelLoadError(path, bad.reason, bad.hint) from None
    except (struct.error, OverflowError):
        raise ModelLoadError(path, "the file ends inside its header", AGAIN) from None


def outline(path: str) -> Header:
    """What stands before the vocabulary, without it and the tensors: the shape of a model at no cost."""
    try:
        with _open(path) as data:
            cursor, metadata = _Cursor(data), dict[str, Value]()
            version = _version(cursor)
            cursor.count("tensors")
            for _ in range(cursor.count("keys")):
                key, kind = cursor.text(), cursor.number("I")
                if key == "tokenizer.ggml.tokens":
                    break
                if (value := _value(cursor, key, kind)) is not None:
                    metadata[key] = value
            return Header(path, version, MappingProxyType(metadata), (), cursor.at, len(data), None)
    except Bad as bad:
        raise ModelLoadError(path, bad.reason, bad.hint) from None
    except (struct.error, OverflowError):
        raise ModelLoadError(path, "the file ends inside its header", AGAIN) from None


def pieces(path: str) -> list[bytes]:
    """The vocabulary as the file spells it, by id; for a file whose header `read` accepted."""
    with _open(path) as data:
        cursor = _Cursor(data)
        cursor.skip(16)
        for _ in range(cursor.count("keys")):
            key, kind = cursor.text(), cursor.number("I")
            if key == "tokenizer.ggml.tokens" and kind == _ARRAY:
                return _pieces(cursor)
            _value(cursor, key, kind)
    return []


class Bad(Exception):
    """The reason and hint of a ModelLoadError to be, before the path is known."""

    def __init__(self, reason: str, hint: str = "") -> None:
        self.reason, self.hint = reason, hint


def _open(path: str) -> mmap.mmap:
    try:
        kind = os.stat(path).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # opening a pipe may wait for ever
            raise Bad("it is a device or a pipe, not a file", "Name a .gguf file.")
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                raise Bad("the file is empty", AGAIN)
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError:
        raise Bad("there is no such file", "Check the path; `localspec models` lists what is here.") from None
    except IsADirectoryError:
        raise Bad("it is a directory", "Name the .gguf file inside it.") from None
    except PermissionError:
        if os.path.isdir(path):  # so Windows says it
            raise Bad("it is a directory", "Name the .gguf file inside it.") from None
        raise Bad("this user may not read it", "Change the file's permissions.") from None
    except (OSError, ValueError) as error:
        raise Bad(f"it cannot be read ({error})") from None


class _Cursor:
    """Reads on from `at`; running over the end is a struct.error."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data, self.at = data, 0

    def number(self, code: str) -> int:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[int, ...]:
        values = struct.unpack_from(f"<{count}{code}", self.data, self.at)
        self.at += count * struct.calcsize("<" + code)
        return values

    def skip(self, length: int) -> None:
        self.at += length
        if self.at > len(self.data):
            raise struct.error

    def string(self) -> bytes:
        length = self.number("Q")
        start = self.at
        self.skip(length)
        return self.data[start : self.at]

    def text(self) -> str:
        return self.string().decode(errors="replace")

    def count(self, what: str) -> int:
        value = self.number("Q")
        if value > MAX_ITEMS:
            raise Bad(f"its header claims {value:,} {what}: it is damaged", AGAIN)
        return value

    def strings(self, count: int) -> list[bytes]:
        """A loop over local names: this is where the time goes."""
        data, at, length, found = self.data, self.at, struct.Struct("<Q").unpack_from, []
        for _ in range(count):
            end = at + 8 + length(data, at)[0]
            found.append(data[at + 8 : end])
            at = end
        self.at = at
        self.skip(0)
        return found

    def skip_strings(self, count: int) -> None:
        data, at, length = self.data, self.at, struct.Struct("<Q").unpack_from
        for _ in range(count):
            at += 8 + length(data, at)[0]
        self.at = at
        self.skip(0)


def _parse(path: str, data: mmap.mmap) -> Header:
    cursor = _Cursor(data)
    version = _version(cursor)
    n_tensors, n_keys = cursor.count("tensors"), cursor.count("keys")
    metadata: dict[str, Value] = {}
    pieces: list[bytes] | None = None
    for _ in range(n_keys):
        key, kind = cursor.text(), cursor.number("I")
        if key == "tokenizer.ggml.tokens" and kind == _ARRAY:
            pieces = _pieces(cursor)
        elif (value := _value(cursor, key, kind)) is not None:
            metadata[key] = value
    tensors = tuple(_tensor(cursor) for _ in range(n_tensors))
    return Header(
        path=path,
        version=version,
        metadata=MappingProxyType(metadata),
        tensors=tensors,
        data_offset=_aligned(cursor.at, metadata.get("general.alignment", 32)),
        size=len(data),
        vocabulary=None if pieces is None else _vocabulary(str(metadata.get("tokenizer.ggml.model", "")), pieces),
    )


def _version(cursor: _Cursor) -> int:
    head = cursor.data[:64]
    for start, reason, hint in _NOT_GGUF:
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(start):
            raise Bad(reason, hint)
    if head[:4] != b"GGUF"[: len(head)]:
        raise Bad("it does not begin with GGUF, so it is not a GGUF file", "Choose a file that ends in .gguf.")
    cursor.skip(4)
    version = cursor.number("I")
    if version & 0xFFFF == 0:
        raise Bad("it was written for a big-endian machine", "Look for the usual (little-endian) file.")
    if version not in (2, 3):
        raise Bad(f"it is GGUF version {version}; versions 2 and 3 are supported", "Look for a newer file.")
    return version


def _value(cursor: _Cursor, key: str, kind: int) -> Value | None:
    """None for what is only walked over."""
    if kind == _STRING:
        return cursor.text()
    if kind in _SCALARS:
        return cursor.number(_SCALARS[kind])
    if kind != _ARRAY:
        raise Bad(f"its header is damaged at {key[:60]!r}", AGAIN)
    kind, count = cursor.number("I"), cursor.count("items")
    if kind == _STRING:
        cursor.skip_strings(count)
        return None
    if kind not in _SCALARS:
        raise Bad(f"its header is damaged at {key[:60]!r}", AGAIN)
    if count <= KEPT_ITEMS:
        return cursor.numbers(_SCALARS[kind], count)
    cursor.skip(count * struct.calcsize("<" + _SCALARS[kind]))
    return None


def _pieces(cursor: _Cursor) -> list[bytes]:
    if cursor.number("I") != _STRING:
        raise Bad("its vocabulary is not a list of strings", AGAIN)
    return cursor.strings(cursor.count("vocabulary pieces"))


def _vocabulary(model: str, pieces: list[bytes]) -> Vocabulary:
    digest, seen, repeated = sha256(), set[bytes](), []
    for piece in pieces:
        digest.update(b"%d:%b" % (len(piece), piece))
    known = set(pieces)
    if len(known) < len(pieces):
        for piece in filter(None, pieces):  # llama.cpp gives every empty piece a name of its own
            if piece in seen:
                repeated.append(piece.decode(errors="replace"))
            seen.add(piece)
    lacking = 0
    if model == "llama":  # what it has no piece for, it spells in bytes
        lacking = sum(b"<0x%02X>" % byte not in known and bytes((byte,)) not in known for byte in range(256))
    return Vocabulary(model, len(pieces), digest.hexdigest(), tuple(repeated), lacking)


def _tensor(cursor: _Cursor) -> Tensor:
    name, dimensions = cursor.text(), cursor.number("I")
    if dimensions > 4:
        raise Bad(f"its tensor {name[:60]!r} claims {dimensions} dimensions: it is damaged", AGAIN)
    shape = cursor.numbers("Q", dimensions)
    return Tensor(name, shape, cursor.number("I"), cursor.number("Q"))


def _aligned(at: int, alignment: Value) -> int:
    if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
        raise Bad(f"its alignment is {alignment}, not a power of two: it is damaged", AGAIN)
    return -(-at // alignment) * alignment
