"""The words of the algorithm: what passes between target, drafter, verifier and the people who watch.

Knows nothing of llama.cpp, text or screens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

if TYPE_CHECKING:
    from localspec.spec.distribution import Distribution
    from localspec.spec.sampling import Sampling

Token: TypeAlias = int
Tokens: TypeAlias = Sequence[Token] | NDArray[np.int32]
Logits: TypeAlias = NDArray[np.float32]
Probs: TypeAlias = "tuple[Distribution, ...]"


class Finish(StrEnum):
    """Why an answer ended."""

    STOP = "stop"  # the model's own end-of-generation token
    STOP_STRING = "stop_string"
    LENGTH = "length"
    CONTEXT = "context"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Draft:
    """What a drafter proposes. `probs[i]` is the distribution that `tokens[i]` was really drawn from;
    None means that every token was proposed with certainty."""

    tokens: tuple[Token, ...] = ()
    probs: Probs | None = None
    source: str = "off"
    evidence: int = 0  # a class that the drafter gives its drafts by what stands behind them (a long match, ...)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`accepted` draft tokens are kept; then comes the target's own `token` (correction, or bonus after all)."""

    accepted: int
    token: Token


@dataclass(frozen=True, slots=True)
class LogProb:
    """How likely the model itself found an emitted token, and the most likely tokens at its place, best first.

    Natural logarithms of the softmax of the model's own logits, before bias, penalties, filters and temperature:
    the same for every sampling setting and every method, and what `logprobs` means elsewhere. Impossible tokens
    are left out of `top`.
    """

    token: Token
    logprob: float
    top: tuple[tuple[Token, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Round:
    """One pass of the target: what was drafted, what was kept, and where the time went (seconds).

    `emitted` is `drafted[:accepted]` and the target's own token, unless the answer ended on a drafted token:
    then that last token is missing, and `cut` is True. `p` and `q` are the probabilities that the target and the
    drafter gave to each tested draft token. `verify_s` is the target's decode, `sample_s` the rule itself.
    """

    method: str  # the drafter in use when the round began
    source: str  # who proposed this draft; differs from `method` inside a cascade, "off" without a draft
    drafted: tuple[Token, ...]
    accepted: int
    emitted: tuple[Token, ...]
    p: tuple[float, ...]
    q: tuple[float, ...]
    limit: int  # how many tokens the drafter was allowed
    draft_s: float
    verify_s: float
    sample_s: float
    total_s: float
    finish: Finish | None = None
    logprobs: tuple[LogProb, ...] = ()  # one for each emitted token, where they were asked for

    @property
    def cut(self) -> bool:
        return len(self.emitted) == self.accepted

    @property
    def considered(self) -> set[Token]:
        """The alternatives that came with the emitted tokens, these mostly included."""
        return {token for each in self.logprobs for token, _ in each.top}

    @property
    def tested(self) -> int:
        """Draft tokens that verification reached: each accepted one and the first rejected one."""
        return self.accepted + (not self.cut and self.accepted < len(self.drafted))

    @property
    def provenance(self) -> tuple[str, ...]:
        """Who each emitted token came from: the drafter's name, `bonus`, `correction` or `plain`."""
        if self.cut:
            own: tuple[str, ...] = ()
        elif not self.drafted:
            own = ("plain",)
        else:
            own = ("bonus",) if self.accepted == len(self.drafted) else ("correction",)
        return (self.source,) * self.accepted + own


class LanguageModel(Protocol):
    """A causal model with a cache that can be cut. `llama/model.py`, and a strict fake in the tests.

    `decode` appends `tokens` to the cache and returns float32 logits of shape (rows, n_vocab) for the last `rows`
    tokens: a view that the next decode overwrites. Raises ModelError when it fails; the cache then holds what
    `cached` says. At most `n_batch` tokens and `max_rows` rows at once.
    """

    n_vocab: int
    n_ctx: int
    n_batch: int
    max_rows: int

    @property
    def cached(self) -> Tokens: ...

    def decode(self, tokens: Tokens, *, rows: int) -> Logits: ...

    def rewind(self, length: int) -> None:
        """Cut the cache to its first `length` tokens, at whatever cost it takes; 0 always works. Raises
        CannotRewind, and `cached` is then as it was or empty. Rows of logits may be overwritten."""


class Drafter(Protocol):
    """Proposes what comes after `context`: at most `limit` tokens, possibly none.

    A drafter keeps its own state in step by the longest common prefix with the context it is handed; nobody tells
    it about rejections, edits or cancelled turns.
    """

    @property
    def name(self) -> str: ...

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft: ...

    def close(self) -> None: ...
