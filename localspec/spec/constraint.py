"""Rows under a constraint on the text, such as a grammar: forbidden tokens first, everything else after.

p is the distribution that sampling.py computes from a row in which every forbidden token has the logit minus
infinity. Asking about a whole vocabulary is slow, so tokens are asked about from the best one down, until no token
that was not asked about could change the result. Knows nothing of grammars.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelError
from localspec.spec.distribution import Distribution, certain
from localspec.spec.sampling import Ids, LazyRows, adjusted, best, peak, prefix, softmax
from localspec.spec.settings import Sampling
from localspec.spec.types import Logits, Token, Tokens

_FIRST, _GROWTH = 8, 8  # tokens asked about at first; each time that was not enough, so many times more


class Constraint(Protocol):
    """Which tokens may come next after some text: a value, so that a rejected draft leaves no trace."""

    def allows(self, ids: Ids, /) -> NDArray[np.bool_]: ...

    def after(self, token: Token, /) -> Constraint | None:
        """The constraint after one more token; None where that token is forbidden."""


class ConstrainedRows(LazyRows):
    """The target's rows along a draft; at each one the constraint is that after the draft before it."""

    def __init__(
        self,
        logits: Logits,
        history: Tokens,
        drafted: tuple[Token, ...],
        sampling: Sampling,
        constraint: Constraint,
    ) -> None:
        super().__init__(logits, history, drafted, sampling)
        self._drafted, self._states = drafted, [constraint]

    def _row(self, i: int, before: Ids) -> Distribution:
        while len(self._states) <= i:
            state = self._states[-1].after(self._drafted[len(self._states) - 1])
            # A forbidden token has p = 0, so no rule asks for what comes after it.
            assert state is not None, "a row behind a forbidden token"
            self._states.append(state)
        return constrained(adjusted(self._logits[i], before, self._sampling), self._sampling, self._states[i])


def constrained(row: Logits, sampling: Sampling, constraint: Constraint) -> Distribution:
    """The distribution of the next token among the allowed ones. Raises ModelError where there is none."""
    if not (sampling.greedy or 0 < sampling.top_k < row.size or sampling.top_p < 1 or sampling.min_p > 0):
        peak(row)  # damage counts in forbidden places too
        row = np.where(constraint.allows(np.arange(row.size, dtype=np.int32)), row, np.float32(-np.inf))
        if row.max() == -np.inf:
            raise _nothing_fits()
        return Distribution(None, softmax(row, float(row.max()), sampling.temperature))
    ids = _survivors(row, sampling, constraint)
    if sampling.greedy:
        return certain(int(ids[0]))
    return Distribution(ids, softmax(row[ids], float(row[ids[0]]), sampling.temperature))


def _survivors(row: Logits, sampling: Sampling, constraint: Constraint) -> Ids:
    """The allowed ids that survive the truncation, best first."""
    most = 1 if sampling.greedy else sampling.top_k if 0 < sampling.top_k < row.size else row.size
    whole = _mass(row, peak(row)) if most == row.size and sampling.top_p < 1 else math.inf
    found, asked, n = np.empty(0, np.int32), 0, _FIRST
    while True:
        ids = best(row, min(n, row.size))
        new = ids[asked:]
        new = new[row[new] > -np.inf]
        found = np.concatenate((found, new[constraint.allows(new)]))[:most]
        asked, last = ids.size, float(row[ids[-1]])
        if found.size:
            logits = row[found].astype(np.float64)
            keep = _settled(logits, last, _beyond(row, ids, found, most, whole), sampling)
            if keep is not None:
                return found[:keep]
        elif asked == row.size or last == -np.inf:
            raise _nothing_fits()
        n *= _GROWTH


def _beyond(row: Logits, ids: Ids, found: Ids, most: int, whole: float) -> float:
    """No more than this is the mass of the allowed tokens that are not among the best `ids`, relative to the first of
    those that were found. `whole` is the mass of all tokens, relative to the best one."""
    top, first, last = float(row[ids[0]]), float(row[found[0]]), float(row[ids[-1]])
    unseen = min(most - found.size, row.size - ids.size)
    if unseen <= 0 or last == -np.inf:
        return 0.0
    rest = max(0.0, whole - _mass(row[ids], top)) + 1e-12 * whole  # sums are rounded
    return min(unseen * math.exp(last - first), rest * math.exp(min(top - first, 700.0)))


def _mass(logits: Logits, relative_to: float) -> float:
    return float(np.exp(logits.astype(np.float64) - relative_to).sum())


def _settled(logits: NDArray[np.float64], last: float, beyond: float, sampling: Sampling) -> int | None:
    """How many of these top-p and min-p keep; None if that depends on the mass `beyond` that may follow, with logits
    of at most `last`."""
    mass = float(np.exp(logits - logits[0]).sum())
    if beyond == 0.0:
        return prefix(logits, mass, sampling)
    possible = np.append(logits, last)
    low, high = prefix(possible, mass, sampling), prefix(possible, mass + beyond, sampling)
    return low if low == high <= logits.size else None


def _nothing_fits() -> ModelError:
    return ModelError("No token of this model fits the grammar here.", "Use characters that the model can write.")
