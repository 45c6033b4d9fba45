"""Every formula against numbers computed by hand, and the intervals against the truth in a simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from localspec.bench import statistics
from localspec.bench.statistics import Ratio, Work, change, geometric_mean, percentiles, speedup


def test_percentiles_are_linear_between_neighbours() -> None:
    # 1..5: p50 is the third; p95 lies at 1 + 0.95 * 4 = 4.8, p99 at 4.96.
    assert percentiles([5, 1, 3, 2, 4]) == pytest.approx((3.0, 4.8, 4.96))
    assert percentiles([]) is None


def test_a_round_of_three_tokens_counts_three_times() -> None:
    # 2, 2, 2, 10: p50 is 2; p95 lies at place 0.95 * 3 = 2.85 between 2 and 10.
    assert percentiles([2, 10], [3, 1]) == pytest.approx((2.0, 8.8, 9.76))
    assert percentiles([1.0], [0]) is None


def test_geometric_mean() -> None:
    assert geometric_mean([1, 2, 4]) == pytest.approx(2.0)
    assert geometric_mean([]) is None
    assert geometric_mean([1.0, 0.0]) is None


def test_a_speed_up_is_a_ratio_of_sums_not_a_mean_of_ratios() -> None:
    ours = [Work(100, 1.0), Work(10, 1.0)]  # 110 tokens in 2 s: 55 a second
    base = [Work(100, 4.0), Work(10, 0.5)]  # 110 tokens in 4.5 s
    found = speedup(ours, base)
    assert found == Ratio(pytest.approx(4.5 / 2.0))
    assert found is not None and not found.certain  # two prompts are too few for an interval


def test_without_tokens_there_is_no_speed_up() -> None:
    assert speedup([], []) is None
    assert speedup([Work(0, 0.0)], [Work(3, 1.0)]) is None


def test_the_standard_error_is_that_of_linearisation() -> None:
    """log R = log(sum t) - log(sum d) - ...; with equal tokens only the seconds of the two differ. For seconds
    (1, 3) against (2, 2), the influences are t/sum - d/sum: (0.5 - 0.25) - (0.5 - 0.5) = 0.25 and -0.25; so the
    variance is (0.25^2 + 0.25^2) * 2 / 1 = 0.25, and the error 0.5."""
    columns = np.array([[(1, 1), (1, 3)], [(1, 2), (1, 2)]], float)
    value, error = statistics._estimate(columns, np.array([1.0, -1.0]), np.ones((1, 2)))
    assert (value[0], error[0]) == (pytest.approx(0.0), pytest.approx(0.5))


def test_where_all_prompts_say_the_same_the_interval_is_a_point() -> None:
    found = speedup([Work(10, 1.0)] * 6, [Work(10, 1.5)] * 6)
    assert found == Ratio(pytest.approx(1.5), pytest.approx(1.5), pytest.approx(1.5))
    assert found is not None and found.certain


def test_the_change_of_a_speed_up_is_a_ratio_of_ratios() -> None:
    works = [Work(10, 1.0), Work(20, 2.0), Work(30, 3.0), Work(10, 1.0), Work(20, 2.0)]
    slower = [Work(w.tokens, 2 * w.seconds) for w in works]  # the machine was busy: both took twice as long
    faster = [Work(w.tokens, w.seconds / 1.2) for w in works]
    found = change((faster, works), (slower, slower))
    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((1.2, 1.2, 1.2))


def test_a_slower_variant_turns_the_ratio_over() -> None:
    rng = np.random.default_rng(3)
    a = [Work(int(n), n * 0.01 * s) for n, s in zip(rng.integers(20, 99, 12), rng.uniform(1, 2, 12), strict=True)]
    b = [Work(int(n), n * 0.01 * s) for n, s in zip(rng.integers(20, 99, 12), rng.uniform(1, 2, 12), strict=True)]
    one, other = speedup(a, b), speedup(b, a)
    assert one is not None and other is not None and other.high is not None and other.low is not None
    assert one.value == pytest.approx(1 / other.value)
    assert (one.low, one.high) == (pytest.approx(1 / other.high), pytest.approx(1 / other.low))


@pytest.mark.parametrize("n", [6, 24])
def test_intervals_cover_the_truth_at_the_stated_rate(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prompts differ in length, in speed and in how much the variant gains on them. Of 400 intervals of 95 %, 380
    should hold the true ratio; the standard deviation of that number is 4.4, so four of them bound it."""
    monkeypatch.setattr(statistics, "RESAMPLES", 1000)
    rng, spread, runs = np.random.default_rng(n), 0.15, 400
    truth = 1.5 * math.exp(-(spread**2) / 2)  # of sums: the harmonic mean of a log-normal gain
    covered = 0
    for _ in range(runs):
        tokens, step = rng.integers(20, 128, n), 0.01 * np.exp(rng.normal(0, 0.2, n))
        gain = 1.5 * np.exp(rng.normal(0, spread, n))
        base = [Work(t, t * s) for t, s in zip(tokens, step, strict=True)]
        found = speedup([Work(w.tokens, w.seconds / g) for w, g in zip(base, gain, strict=True)], base)
        assert found is not None and found.low is not None and found.high is not None
        covered += found.low <= truth <= found.high
    assert abs(covered - 0.95 * runs) <= 4 * math.sqrt(runs * 0.95 * 0.05)


def test_a_lower_level_gives_a_narrower_interval() -> None:
    rng = np.random.default_rng(5)
    base = [Work(50, 1.0)] * 20
    ours = [Work(50, float(s)) for s in rng.uniform(0.5, 1.0, 20)]
    wide, narrow = speedup(ours, base), speedup(ours, base, level=0.5)
    assert wide is not None and narrow is not None
    assert wide.low is not None and narrow.low is not None and wide.high is not None and narrow.high is not None
    assert wide.low < narrow.low < narrow.value < narrow.high < wide.high
