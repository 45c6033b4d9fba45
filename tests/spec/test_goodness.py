"""The G-test: right draws pass, wrong ones don't, and the tail is that of the tables."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.spec.distribution import Distribution, certain
from localspec.spec.goodness import _chi2_tail, p_value
from tests.spec.laws import dense


@pytest.mark.parametrize(
    ("x", "freedom", "tail"),
    [
        (3.841, 1, 0.05),
        (9.488, 4, 0.05),
        (23.209, 10, 0.01),
        (124.342, 100, 0.05),
        (15.137, 1, 1e-4),
        (0.0, 3, 1.0),
    ],
)
def test_the_tail_is_that_of_the_tables(x: float, freedom: int, tail: float) -> None:
    assert _chi2_tail(x, freedom) == pytest.approx(tail, rel=2e-3)


def draws(p: Distribution, n: int, seed: int) -> Counter[int]:
    rng = default_rng(seed)
    return Counter(p.sample(rng) for _ in range(n))


SHAPES = {
    "few": dense([0.4, 0.3, 0.2, 0.1]),
    "steep": dense([2.0**-i for i in range(30)]),
    "flat": dense([1.0] * 300),
    "sparse": Distribution(np.array([7, 3, 90], np.int32), np.array([0.6, 0.3, 0.1])),
    "rare": dense([0.991, 0.003, 0.003, 0.003]),
}


@pytest.mark.parametrize("name", SHAPES)
def test_p_values_of_right_draws_are_spread_evenly(name: str) -> None:
    found = sorted(p_value(draws(SHAPES[name], 2000, seed), SHAPES[name]) for seed in range(200))
    # Kolmogorov's distance from the uniform distribution; 0.14 is exceeded once in a thousand.
    assert max(abs(p - (i + 0.5) / 200) for i, p in enumerate(found)) < 0.14


@pytest.mark.parametrize("share", [0.05, 0.1])
def test_a_shift_of_a_few_percent_is_found(share: float) -> None:
    wrong = dense([0.4 + share, 0.3 - share, 0.2, 0.1])
    assert p_value(draws(wrong, 10_000, 1), SHAPES["few"]) < 1e-6


def test_a_token_that_is_excluded_is_enough() -> None:
    assert p_value({7: 900, 3: 450, 90: 149, 5: 1}, SHAPES["sparse"]) == 0.0
    assert p_value({0: 500, 1: 1}, dense([1.0, 0.0])) == 0.0


def test_where_there_is_nothing_to_compare_nothing_is_said() -> None:
    assert p_value({4: 1000}, certain(4)) == 1.0
    assert p_value({}, SHAPES["few"]) == 1.0
    assert p_value({0: 3, 1: 2}, SHAPES["few"]) == 1.0


def test_rare_tokens_count_together() -> None:
    tail = dense([0.9, *[0.1 / 1000] * 1000])
    assert p_value(Counter({0: 900} | dict.fromkeys(range(1, 1001, 10), 1)), tail) > 0.5
    assert p_value(Counter({0: 900} | dict.fromkeys(range(1, 101), 1)), tail) < 1e-6, "only the first tenth of them"
    assert p_value(Counter({0: 800} | dict.fromkeys(range(1, 1001, 5), 1)), tail) < 1e-6, "twice as many"
