"""No drafting: plain decoding at plain speed."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Tokens


class Off:
    name: ClassVar[str] = "off"

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        return Draft()

    def close(self) -> None:
        pass
