"""What a model is asked to be, and what it turned out to be. Plain data that catalogue, llama and engine share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # every command loads this module, and numpy takes its time
    from localspec.spec.numerics import Numerics


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A GGUF file and how to load it. None means: the engine chooses, and says what it chose in Ready."""

    path: str
    n_ctx: int | None = None
    gpu_layers: int | None = None
    threads: int | None = None
    flash_attn: str = "auto"  # auto | on | off
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    n_batch: int | None = None  # tokens of a prompt in one pass


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What was loaded and what the engine chose for it."""

    role: str  # target | draft
    path: str
    name: str  # general.name, else the file's stem
    description: str  # llama.cpp's own, e.g. "llama 134.52M Q4_1"
    architecture: str
    bytes: int
    fingerprint: str  # sha256 of size, header and sampled blocks; see gguf.py
    n_ctx: int
    n_ctx_train: int
    n_vocab: int
    n_layer: int
    gpu_layers: int
    threads: int
    flash_attn: bool
    cache_type_k: str
    cache_type_v: str
    rollback: str  # PART | RS | FULL | SWA | NONE
    speculation_off: str | None = None  # the reason, when drafts can't be checked on this model
    numerics: Numerics | None = None  # of the target; None where drafts can't be checked
    n_batch: int = 512
