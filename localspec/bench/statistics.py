"""The statistics of a benchmark: percentiles, geometric means, and the ratio of two speeds with its interval.

A speed is a sum of tokens over a sum of seconds. Two speeds are compared prompt by prompt: the interval comes from
a bootstrap over prompts, each with what both variants did on it. Pure: no clock, no file, and a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

LEVEL = 0.95
RESAMPLES = 4000
FEWEST = 5  # prompts; from fewer of them no honest interval can be had
_SEED = 20_011
_PERCENT = (50, 95, 99)
Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Work:
    """Tokens written and the seconds that they took."""

    tokens: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times as fast. `low` and `high` are the ends of the interval, None where there are too few prompts."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def certain(self) -> bool:
        """Whether it differs from 1 by more than noise."""
        return self.low is not None and self.high is not None and (self.low > 1.0 or self.high < 1.0)


def percentiles(values: Sequence[float], weights: Sequence[int] | None = None) -> tuple[float, float, float] | None:
    """p50, p95 and p99, linear between neighbours. `weights` says how often each value counts."""
    if not len(values):
        return None
    repeated = np.repeat(np.asarray(values, float), 1 if weights is None else np.asarray(weights, int))
    if not repeated.size:
        return None
    p50, p95, p99 = np.percentile(repeated, _PERCENT)
    return float(p50), float(p95), float(p99)


def geometric_mean(values: Sequence[float]) -> float | None:
    if not len(values) or min(values) <= 0:
        return None
    return float(np.exp(np.mean(np.log(values))))


def speedup(ours: Sequence[Work], base: Sequence[Work], level: float = LEVEL) -> Ratio | None:
    """The ratio of the speeds, `ours[i]` and `base[i]` being the same prompt. None where nothing was written."""
    return product(((ours, 1), (base, -1)), level)


def change(
    after: tuple[Sequence[Work], Sequence[Work]],
    before: tuple[Sequence[Work], Sequence[Work]],
    level: float = LEVEL,
) -> Ratio | None:
    """The ratio of two speed-ups, each of (variant, baseline), over the same prompts."""
    return product(((after[0], 1), (after[1], -1), (before[0], -1), (before[1], 1)), level)


def product(factors: Sequence[tuple[Sequence[Work], int]], level: float = LEVEL) -> Ratio | None:
    """A product of speeds to the powers 1 or -1, with a studentised bootstrap interval of its logarithm."""
    columns = np.array([[(work.tokens, work.seconds) for work in works] for works, _ in factors], float)
    powers = np.array([power for _, power in factors], float)
    if columns.size == 0 or (columns.sum(axis=1) <= 0).any():
        return None
    n = columns.shape[1]
    value, error = _estimate(columns, powers, np.ones((1, n)))
    if n < FEWEST:
        return Ratio(float(np.exp(value[0])))
    drawn = np.random.default_rng(_SEED).multinomial(n, np.full(n, 1 / n), RESAMPLES)
    values, errors = _estimate(columns, powers, drawn)
    usable = errors > 1e-9 * (1 + error[0])  # all the same prompt: such a draw has no spread to divide by
    if not usable.any():
        return Ratio(float(np.exp(value[0])), float(np.exp(value[0])), float(np.exp(value[0])))
    t = (values[usable] - value[0]) / errors[usable]
    below, above = np.quantile(t, ((1 - level) / 2, (1 + level) / 2))
    low, high = np.exp(value[0] - above * error[0]), np.exp(value[0] - below * error[0])
    return Ratio(float(np.exp(value[0])), float(low), float(high))


def _estimate(columns: Floats, powers: Floats, counts: ArrayLike) -> tuple[Floats, Floats]:
    """The logarithm of the product, and its standard error by linearisation, for each row of counts of prompts."""
    drawn = np.asarray(counts, float)
    n = drawn.shape[1]
    sums = np.einsum("rn,fnc->rfc", drawn, columns)
    sums = np.where(sums > 0, sums, np.nan)
    value = (powers * (np.log(sums[:, :, 0]) - np.log(sums[:, :, 1]))).sum(axis=1)
    shares = columns[None, :, :, 0] / sums[:, :, None, 0] - columns[None, :, :, 1] / sums[:, :, None, 1]
    influence = np.einsum("f,rfn->rn", powers, shares)
    variance = (drawn * influence**2).sum(axis=1) * n / max(1, n - 1)
    error = np.sqrt(variance)
    broken = np.isnan(value) | np.isnan(error)
    return np.where(broken, 0.0, value), np.where(broken, 0.0, error)
