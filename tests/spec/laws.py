"""The law of a round's first tokens against the target's own, for any target, drafter and verifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from localspec.spec.distribution import Distribution
from localspec.spec.types import Draft, Token
from localspec.spec.verify import Verifier
from tests.spec.enumeration import law

Prefix: TypeAlias = tuple[Token, ...]
Model: TypeAlias = Callable[[Prefix], Distribution]
Propose: TypeAlias = Callable[[Any], Draft]
EXACT = 1e-12


def dense(weights: Sequence[float]) -> Distribution:
    row = np.asarray(weights, np.float64)
    return Distribution(None, row / row.sum())


class Rows:
    """The target's rows along a draft."""

    def __init__(self, target: Model, draft: Draft) -> None:
        self._target, self._tokens = target, draft.tokens

    def __getitem__(self, i: int) -> Distribution:
        return self._target(self._tokens[:i])


def drawn(q: Model, k: int) -> Propose:
    """k tokens drawn one by one from the distributions that are handed over."""

    def propose(rng: Any) -> Draft:
        tokens: Prefix = ()
        for _ in range(k):
            tokens += (q(tokens).sample(rng),)
        return Draft(tokens, tuple(q(tokens[:i]) for i in range(k)))

    return propose


def emitted(target: Model, propose: Propose, verifier: Verifier) -> dict[Prefix, float]:
    """The probability of each sequence of tokens that one round can emit."""

    def round(rng: Any) -> Prefix:
        draft = propose(rng)
        verdict = verifier(Rows(target, draft), draft, rng)
        return (*draft.tokens[: verdict.accepted], verdict.token)

    return law(round)


def mean_accepted(outcomes: dict[Prefix, float]) -> float:
    return sum(probability * (len(tokens) - 1) for tokens, probability in outcomes.items())


def assert_target_law(outcomes: dict[Prefix, float], target: Model, n_vocab: int, length: int) -> None:
    """The first `length` tokens have the target's law, where the target itself goes on after a shorter round."""
    assert abs(sum(outcomes.values()) - 1) < EXACT
    for text in product(range(n_vocab), repeat=length):
        wanted = _likelihood(target, text, 0)
        found = sum(
            probability * _likelihood(target, text, len(tokens))
            for tokens, probability in outcomes.items()
            if tokens[:length] == text[: len(tokens)]
        )
        assert abs(found - wanted) < EXACT, f"{text}: {found} instead of {wanted}"


def _likelihood(target: Model, text: Prefix, start: int) -> float:
    result = 1.0
    for i in range(start, len(text)):
        result *= target(text[:i]).prob(text[i])
    return result
