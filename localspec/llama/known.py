"""Whether this build of llama.cpp knows an architecture, found out in microseconds: it is handed a file that names
the architecture and holds nothing else, and the reason of its refusal tells."""

from __future__ import annotations

import os
import struct
from tempfile import TemporaryDirectory

from localspec.errors import ModelLoadError
from localspec.llama.load import open_model
from localspec.llama.native import Native

_STRING = 8  # GGUF's type


def refusal(architecture: str) -> str | None:
    """Why no model of this architecture can be loaded here; None when it can."""
    with TemporaryDirectory() as folder:
        path = os.path.join(folder, "bare.gguf")
        with open(path, "wb") as file:
            file.write(_bare(architecture))
        try:
            open_model(Native(), path, gpu_layers=0, vocab_only=True)
        except ModelLoadError as error:
            return error.reason if "does not know the architecture" in error.reason else None
    return None


def _bare(architecture: str) -> bytes:
    key, value = _text("general.architecture"), _text(architecture)
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<I", _STRING) + value + bytes(64)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<Q", len(data)) + data
