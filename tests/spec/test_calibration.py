from __future__ import annotations

import pytest

from localspec.spec.calibration import WIDTHS, calibrate
from localspec.spec.costs import Costs
from tests.fakes import FakeModel, noise


class Timed(FakeModel):
    """Its passes take what a table says, and more on some of them."""

    def __init__(self, cost: dict[int, float], stalls: dict[int, float] | None = None) -> None:
        super().__init__(noise(32), 32)
        self.now, self._cost, self._stalls, self._passes = 0.0, cost, stalls or {}, 0

    def decode(self, tokens, *, rows):  # type: ignore[no-untyped-def]
        if rows:
            self._passes += 1
            self.now += self._cost[rows] + self._stalls.get(self._passes, 0.0)
        return super().decode(tokens, rows=rows)

    def measured(self, budget: float = 1e9) -> dict[int, float]:
        return calibrate(self, budget=budget, clock=lambda: self.now)


COST = {1: 0.010, 2: 0.014, 4: 0.018, 8: 0.027, 16: 0.044}


def test_costs_are_told_in_plain_steps() -> None:
    assert Timed(COST).measured() == pytest.approx({2: 1.4, 4: 1.8, 8: 2.7, 16: 4.4})


@pytest.mark.parametrize("stalled", range(1, 17))
def test_no_single_stall_and_no_first_pass_counts(stalled: int) -> None:
    assert Timed(COST, {stalled: 1.0}).measured() == pytest.approx({2: 1.4, 4: 1.8, 8: 2.7, 16: 4.4})


def test_a_slow_model_learns_the_wide_passes_by_itself() -> None:
    assert list(Timed(COST).measured(budget=0.15)) == [2, 4]


def test_a_slow_network_leaves_time_for_wide_passes() -> None:
    away = {rows: 0.03 + seconds for rows, seconds in COST.items()}
    assert list(Timed(away).measured(budget=0.7)) == [2, 4, 8]


def test_it_is_never_asked_for_more_rows_than_it_can_give() -> None:
    model = FakeModel(noise(32), 32, max_rows=5)
    assert set(calibrate(model)) == {2, 4}
    assert len(model.cached) == 0
    assert calibrate(FakeModel(noise(32), 32, max_rows=1)) == {}


def test_what_was_measured_is_a_beginning_that_two_rounds_outvote() -> None:
    costs = Costs()
    costs.begin_with({2: 1.4, 16: 4.4})
    assert costs.verify(2) == pytest.approx(1.4)
    assert costs.widest == 16
    for _ in range(3):
        costs.observe(1, 0.01)
    costs.observe(2, 0.03)
    assert costs.verify(2) == pytest.approx(1.4)
    costs.observe(2, 0.03)
    assert costs.verify(2) == pytest.approx(3.0)


def test_it_never_replaces_what_rounds_have_shown() -> None:
    costs = Costs()
    costs.observe(1, 0.01)
    costs.observe(2, 0.012)
    costs.begin_with(dict.fromkeys(WIDTHS, 9.0))
    assert costs.verify(2) == pytest.approx(1.2)
