"""Drawing and subtracting, dense and sparse: exact to rounding, and never a token of probability 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from localspec.spec.distribution import Distribution, certain, draw, excess
from tests.spec.enumeration import law

V = 6
rows = st.lists(st.integers(0, 5), min_size=V, max_size=V).filter(any)


class Constant:
    def __init__(self, u: float) -> None:
        self.u = u

    def random(self) -> float:
        return self.u


def sparse(weights: list[int], order: int = 1) -> Distribution:
    ids = np.flatnonzero(weights)[::order].astype(np.int32)
    chosen = np.asarray(weights, np.float64)[ids]
    return Distribution(ids, chosen / chosen.sum())


def dense(weights: list[int]) -> Distribution:
    return Distribution(None, np.asarray(weights) / sum(weights))


def as_vector(row: Distribution) -> Any:
    return np.array([row.prob(token) for token in range(V)])


@given(weights=rows)
def test_an_index_is_drawn_in_proportion_to_its_weight(weights: list[int]) -> None:
    outcomes = law(lambda rng: draw(np.asarray(weights, np.float64), rng))
    assert outcomes == pytest.approx({i: w / sum(weights) for i, w in enumerate(weights) if w}, abs=1e-12)


@pytest.mark.parametrize("size", [2048, 2049, 5000, 152_064])
def test_a_long_row_is_drawn_from_in_proportion_too(size: int) -> None:
    weights = np.zeros(size)
    places = default_rng(size).permutation(size)[:60]
    weights[places] = default_rng(1).random(60) + 0.1
    weights[-1] = 2.0
    outcomes = law(lambda rng: draw(weights, rng))
    wanted = {int(i): weights[i] / weights.sum() for i in np.flatnonzero(weights)}
    assert outcomes == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("size", [7, 5000])
@pytest.mark.parametrize("u", [0.0, 1e-300, 0.5, np.nextafter(1, 0)])
def test_the_ends_of_the_unit_interval_never_draw_a_weight_of_zero(u: float, size: int) -> None:
    weights = np.zeros(size)
    weights[[3, size // 2]] = 0.1, 0.7
    assert weights[draw(weights, Constant(u))] > 0  # type: ignore[arg-type]


def test_the_weights_need_not_sum_to_one() -> None:
    assert law(lambda rng: draw(np.array([1e-300, 3e-300]), rng)) == pytest.approx({0: 0.25, 1: 0.75})


@given(p=rows, q=rows, scale=st.sampled_from([1.0, 0.4]), order=st.sampled_from([1, -1]))
def test_the_excess_is_the_same_in_every_form(p: list[int], q: list[int], scale: float, order: int) -> None:
    wanted = np.maximum(0, scale * as_vector(dense(p)) - as_vector(dense(q)))
    for left in (dense(p), sparse(p, order)):
        for right in (dense(q), sparse(q)):
            before = left.probs.copy()
            found = Distribution(left.ids, excess(left, right, scale))
            assert as_vector(found) == pytest.approx(wanted, abs=1e-15)
            assert (left.probs == before).all(), "the row may be asked again"


def test_certainty() -> None:
    row = certain(4)
    assert [row.prob(token) for token in (3, 4)] == [0.0, 1.0]
    assert row.sample(default_rng(0)) == 4
