"""A logits row becomes a probability row. One function, shared by the plain path and the block path."""

from __future__ import annotations

from localspec.spec.settings import Sampling

__all__ = ["Sampling"]
