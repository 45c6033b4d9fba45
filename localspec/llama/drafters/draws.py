"""Tokens drawn one after the other from the rows of a head, for the exact rule to judge.

Knows where the rows come from as little as what becomes of the tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator

import numpy as np
from numpy.random import Generator

from localspec.errors import ModelError
from localspec.spec.distribution import Distribution
from localspec.spec.drafters.model import UNSURE
from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling
from localspec.spec.types import Logits, Token, Tokens

Following = Callable[[Token | None], Logits]
"""The row after a drawn token; None asks for the first row, after the context."""


def draws(
    following: Following,
    context: Tokens,
    limit: int,
    sampling: Sampling,
    rng: Generator,
    eog: Container[Token],
    unsure: float = UNSURE,
) -> Iterator[tuple[Token, Distribution]]:
    """Up to `limit` tokens, each with the distribution that it was drawn from.

    It ends where the whole draft would survive with less than `unsure`. That is known from the row, before its token
    is drawn, so the tokens that stay still have the distributions that come with them.
    """
    history = np.concatenate((np.asarray(context, np.int32), np.empty(limit, np.int32)))
    token, survival = None, 1.0
    for i in range(limit):
        row = following(token)
        try:
            q = distribution(row, history[: len(context) + i], sampling)
        except ModelError:  # broken numbers, or every token that the head knows is banned here
            return
        survival *= _confidence(row, q, sampling)
        if i and survival < unsure:
            return
        token = q.sample(rng)
        history[len(context) + i] = token
        yield token, q
        if token in eog:
            return


def _confidence(row: Logits, q: Distribution, sampling: Sampling) -> float:
    """How likely the head finds its favourite. A greedy q is certain by definition and says nothing about that."""
    if not sampling.greedy:
        return float(q.probs.max())
    return 1.0 / float(np.exp(row - row.max()).sum())
