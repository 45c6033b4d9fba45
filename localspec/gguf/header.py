"""What the header of a GGUF file says, as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeAlias

Value: TypeAlias = int | float | bool | str | tuple[int | float | bool, ...]

# ggml type id -> (elements per block, bytes per block)
_BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292)},
    **{16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82)},
    **{23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2)},
    **{34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18)},
}

_NAMES = {
    **dict(enumerate(["F32", "F16", "Q4_0", "Q4_1"])),
    **dict(enumerate(["Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_K"], 6)),
    **dict(enumerate(["IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS"], 16)),
    **dict(enumerate(["I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16"], 24)),
    **{34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0"},
}


@dataclass(frozen=True, slots=True)
class Tensor:
    name: str
    shape: tuple[int, ...]
    type: int  # ggml's number
    offset: int  # from the start of the data

    @property
    def type_name(self) -> str:
        return _NAMES.get(self.type, f"type {self.type}")

    @property
    def nbytes(self) -> int:
        """0 for a type that this reader does not know: llama.cpp will have to judge it."""
        block, size = _BLOCKS.get(self.type, (1, 0))
        return prod(self.shape) // block * size


@dataclass(frozen=True, slots=True)
class Vocabulary:
    model: str  # tokenizer.ggml.model: llama, gpt2, ...
    size: int
    fingerprint: str  # sha256 of all pieces in order: equal means the same ids for the same pieces
    repeated: tuple[str, ...]  # pieces that occur more than once
    lacking: int = 0  # bytes that a sentencepiece tokeniser has no piece for, and would need one for


@dataclass(frozen=True, slots=True)
class Header:
    path: str
    version: int
    metadata: Mapping[str, Value]  # scalars, strings and short arrays of numbers
    tensors: tuple[Tensor, ...]
    data_offset: int
    size: int  # of the file, in bytes
    vocabulary: Vocabulary | None

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    @property
    def name(self) -> str:
        return self.text("general.name") or Path(self.path).stem

    @property
    def chat_template(self) -> str | None:
        return self.text("tokenizer.chat_template") or None

    @property
    def split(self) -> tuple[int, int]:
        """(number of this part from 0, number of parts)"""
        return self.number("split.no"), self.number("split.count", 1)

    @property
    def expected_size(self) -> int:
        return self.data_offset + max((t.offset + t.nbytes for t in self.tensors), default=0)

    def text(self, key: str) -> str:
        value = self.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def number(self, key: str, default: int = 0) -> int:
        """`$` in the key stands for the architecture. The largest value, where it differs from layer to layer."""
        value = self.metadata.get(key.replace("$", self.architecture), default)
        if isinstance(value, tuple):
            value = max(value, default=default)
        return int(value) if isinstance(value, int | float) else default
