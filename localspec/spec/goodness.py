"""Do draws follow a distribution? The G-test against exactly known probabilities.

Knows nothing of where the draws come from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from localspec.spec.distribution import Distribution
from localspec.spec.types import Token

_LEAST = 10.0  # draws to be expected in each bin: below, the statistic no longer follows its limit law


def p_value(counts: Mapping[Token, int], p: Distribution) -> float:
    """How likely draws from `p` would lie at least as far from it as these. 0.0 for a token that p excludes, 1.0
    where there is nothing to compare. Rare tokens are counted together."""
    n = sum(counts.values())
    observed = np.zeros(p.probs.size)
    places = {} if p.ids is None else {token: i for i, token in enumerate(p.ids.tolist())}
    for token, count in counts.items():
        place = token if p.ids is None else places.get(token, -1)
        if place < 0 or p.probs[place] == 0.0:
            return 0.0
        observed[place] = count
    expected = n * p.probs
    return _g_test(*(np.bincount(_bins(expected), side) for side in (observed, expected)))


def _bins(expected: np.ndarray) -> np.ndarray:
    """A bin for each common token; the rare ones share bins, in the order of their ids."""
    common = expected >= _LEAST
    sums = np.cumsum(np.where(common, 0.0, expected))
    # No rare token expects more than _LEAST, so that each of these bins expects at least as much; but for the last.
    bins = (sums // (2 * _LEAST)).astype(np.int64)
    last = int(bins[-1])
    if sums[-1] - 2 * _LEAST * last < _LEAST and last > 0:
        bins[bins == last] = last - 1
    rarest = np.where(common, expected, np.inf).argmin()
    bins[common] = bins.max() + 1 + np.arange(common.sum())
    if sums[-1] < _LEAST and common.any():  # too few even together: they join the rarest of the others
        bins[~common] = bins[rarest]
    return np.unique(bins, return_inverse=True)[1]


def _g_test(observed: np.ndarray, expected: np.ndarray) -> float:
    freedom = observed.size - 1
    if freedom < 1:
        return 1.0
    seen = observed > 0
    g = 2.0 * float((observed[seen] * np.log(observed[seen] / expected[seen])).sum())
    return _chi2_tail(g, freedom)


def _chi2_tail(x: float, freedom: int) -> float:
    """The probability that a chi-square variable is above `x`: a finite sum, since 2a is a whole number."""
    half = max(x, 0.0) / 2
    if half == 0.0:
        return 1.0
    total, a = (math.erfc(math.sqrt(half)), 0.5) if freedom % 2 else (math.exp(-half), 1.0)
    while a < freedom / 2:
        total += math.exp(a * math.log(half) - half - math.lgamma(a + 1))
        a += 1
    return min(total, 1.0)
