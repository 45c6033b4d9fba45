"""What this build of llama.cpp makes of an architecture, found out in microseconds: it is handed a file that names the
architecture and holds nothing else. It refuses one that it does not know; of the others it tells the nature."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory

from localspec.errors import ModelLoadError
from localspec.llama.load import open_model
from localspec.llama.native import Native, Pointer, lc

_UINT32, _STRING = 4, 8  # GGUF's types


@dataclass(frozen=True, slots=True)
class Nature:
    recurrent: bool  # nothing but a state that is overwritten by each token
    hybrid: bool  # such a state beside attention
    remembers: bool  # whether it writes from left to right and keeps what it read


def refusal(architecture: str) -> str | None:
    """Why no model of this architecture can be loaded here; None when it can."""
    try:
        with _opened(architecture):
            return None
    except ModelLoadError as error:
        return error.reason if "does not know the architecture" in error.reason else None


def nature(architecture: str) -> Nature | None:
    """None where llama.cpp does not load it as a model of its own."""
    try:
        with _opened(architecture) as model:
            return Nature(
                recurrent=lc.llama_model_is_recurrent(model),
                hybrid=lc.llama_model_is_hybrid(model),
                remembers=lc.llama_model_has_decoder(model) and not lc.llama_model_is_diffusion(model),
            )
    except ModelLoadError:
        return None


@contextmanager
def _opened(architecture: str) -> Iterator[Pointer]:
    native = Native()
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "bare.gguf")
        with open(path, "wb") as file:
            file.write(_bare(architecture))
        try:
            yield open_model(native, path, gpu_layers=0, vocab_only=True)
        finally:
            native.close()


def _bare(architecture: str) -> bytes:
    entries = (
        _text("general.architecture") + struct.pack("<I", _STRING) + _text(architecture),
        _text("tokenizer.ggml.model") + struct.pack("<I", _STRING) + _text("no_vocab"),
        _text(f"{architecture}.vocab_size") + struct.pack("<II", _UINT32, 1),
    )
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries) + bytes(64)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
