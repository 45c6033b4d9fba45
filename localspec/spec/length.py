"""How many tokens to draft in the next round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from localspec.spec.types import Round


class Length(Protocol):
    def next(self) -> int:
        """The draft length to ask for; 0 is plain decoding."""

    def observe(self, round: Round) -> None:
        """Learn from what the round cost and gave."""


@dataclass(slots=True)
class Fixed:
    k: int

    def next(self) -> int:
        return self.k

    def observe(self, round: Round) -> None:
        pass
