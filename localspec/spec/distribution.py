"""A probability distribution over token ids, sparse where truncation allows.

Knows nothing of logits or of how the numbers came about.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from localspec.spec.types import Token

Weights = NDArray[np.float64]
FEW = 64  # numbers: in plain Python, since numpy's code has left the caches after a pass of the model
_ONE = np.ones(1)
_ONE.setflags(write=False)
_BLOCK = 512  # a two-level search reads V + V/512 numbers, a full cumulative sum writes V more


@dataclass(frozen=True, slots=True)
class Distribution:
    """`probs[i]` belongs to `ids[i]`; with `ids` None the distribution is dense and the index is the id."""

    ids: NDArray[np.int32] | None
    probs: Weights

    def prob(self, token: Token) -> float:
        if self.ids is None:
            return float(self.probs[token])
        hits = np.flatnonzero(self.ids == token)
        return float(self.probs[hits[0]]) if hits.size else 0.0

    def sample(self, rng: Generator) -> Token:
        return self.token_at(draw(self.probs, rng))

    def token_at(self, index: int) -> Token:
        return index if self.ids is None else int(self.ids[index])


def certain(token: Token) -> Distribution:
    """All the mass on one token: a greedy target, or a proposal made without doubt."""
    return Distribution(np.array([token], np.int32), _ONE)


def draw(weights: Weights, rng: Generator) -> int:
    """An index drawn in proportion to non-negative weights of any positive sum, with one uniform number."""
    if weights.size == 1:
        return 0
    u = rng.random()
    if weights.size <= FEW:
        return _invert_few(weights.tolist(), u)
    if weights.size < 4 * _BLOCK:
        return _invert(weights, u * float(weights.sum()))
    blocks = np.add.reduceat(weights, np.arange(0, weights.size, _BLOCK))
    target = u * float(blocks.sum())
    block = _invert(blocks, target)
    start = block * _BLOCK
    return start + _invert(weights[start : start + _BLOCK], target - float(blocks[:block].sum()))


def _invert(weights: Weights, target: float) -> int:
    cumulative = np.cumsum(weights)
    index = int(np.searchsorted(cumulative, target, side="right"))
    if index < weights.size and weights[index] > 0:
        return index
    # Rounding can push the target past the last positive weight; a token of weight 0 must never come out.
    return int(np.flatnonzero(weights)[-1])


def _invert_few(weights: list[float], u: float) -> int:
    cumulative = list(accumulate(weights))
    index = bisect_right(cumulative, u * cumulative[-1])
    if index < len(weights):
        return index
    return max(i for i, weight in enumerate(weights) if weight > 0)  # rounding, as below


def excess(p: Distribution, q: Distribution, scale: float = 1.0) -> Weights:
    """max(0, scale * p - q) over the support of p, not normalised: what a rejection leaves to draw from."""
    weights = scale * p.probs if scale != 1.0 else p.probs.copy()
    if p.ids is None and q.ids is None:
        weights -= q.probs
    elif p.ids is None:
        weights[q.ids] -= q.probs
    elif q.ids is None:
        weights -= q.probs[p.ids]
    else:
        # Both are a few hundred entries at most: one broadcast comparison beats sorting either side.
        rows, columns = np.nonzero(p.ids[:, None] == q.ids[None, :])
        weights[rows] -= q.probs[columns]
    return np.maximum(weights, 0.0, out=weights)
