"""The cheap drafters first, the model where they are silent.

Members keep themselves in step by the context that they are handed, whoever won the rounds before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from numpy.random import Generator

from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Tokens


class Cascade:
    """`members` in order of preference; the first that proposes anything drafts this round."""

    name: ClassVar[str] = "cascade"

    def __init__(self, members: Sequence[Drafter]) -> None:
        self._members = members

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        for member in self._members:
            draft = member.draft(context, limit, sampling, rng)
            if draft.tokens:
                return draft
        return Draft()

    def close(self) -> None:
        """The members belong to whoever made them."""
