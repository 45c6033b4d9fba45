from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from localspec.spec.costs import Costs


def plain(seconds: float = 0.01) -> Costs:
    costs = Costs()
    for _ in range(3):
        costs.observe(1, seconds)
    return costs


def test_a_plain_step_is_the_unit() -> None:
    costs = plain(0.02)
    assert costs.verify(1) == 1
    assert costs.step_s == pytest.approx(0.02)
    assert Costs().step_s is None


def test_a_width_that_was_measured_is_what_it_was() -> None:
    costs = plain()
    for _ in range(5):
        costs.observe(4, 0.03)
    assert costs.verify(4) == pytest.approx(3)
    assert costs.widest == 4


def test_before_anything_was_measured_more_rows_are_hoped_to_be_cheap() -> None:
    assert [plain().verify(rows) for rows in (2, 3, 11)] == pytest.approx([1.15, 1.3, 2.5])


def test_between_two_widths_the_gentler_slope_is_believed() -> None:
    costs = plain()
    costs.observe(3, 0.014)
    for _ in range(3):
        costs.observe(5, 0.1)
    assert costs.verify(4) == pytest.approx(1.6), "from below, so that a cliff is not smeared"
    costs.observe(9, 0.101)
    assert 10 < costs.verify(7) < 10.2, "towards the next one where that is flatter"


def test_a_dear_width_does_not_hide_a_cheaper_wider_one() -> None:
    """The cost is not monotonic: 4 rows may cost less than 3."""
    costs = plain()
    for _ in range(4):
        costs.observe(3, 0.025)
        costs.observe(4, 0.02)
    assert costs.verify(4) < costs.verify(3)


@pytest.mark.parametrize("rows", [1, 4])
def test_a_stall_hardly_moves_what_is_settled(rows: int) -> None:
    costs = plain()
    for _ in range(20):
        costs.observe(4, 0.02)
    before = costs.verify(4)
    costs.observe(rows, 3.0)
    assert costs.verify(4) == pytest.approx(before, rel=0.02)


def test_one_of_the_first_samples_may_be_a_stall() -> None:
    for stalled in range(3):
        costs = Costs()
        for i in range(3):
            costs.observe(1, 1.0 if i == stalled else 0.01)
        assert costs.step_s == pytest.approx(0.01)


def test_a_first_sample_far_above_its_promise_waits_for_a_second_one() -> None:
    costs = plain()
    costs.observe(4, 0.5)
    assert costs.verify(4) == pytest.approx(1.45), "not believed yet, so it is tried again"
    costs.observe(4, 0.5)
    assert costs.verify(4) == pytest.approx(50)


def test_when_everything_gets_slower_the_ratios_stay() -> None:
    costs, rng = plain(), np.random.default_rng(0)
    for i in range(2000):
        rows = (1, 2, 4, 4)[i % 4]
        seconds = 0.01 * (1 + i / 2000) * {1: 1.0, 2: 1.5, 4: 2.5}[rows]
        costs.observe(rows, seconds * math.exp(0.05 * rng.normal()))
    assert costs.step_s == pytest.approx(0.02, rel=0.05)
    assert costs.verify(2) == pytest.approx(1.5, rel=0.05)
    assert costs.verify(4) == pytest.approx(2.5, rel=0.05)


def test_plain_steps_are_known_from_wide_passes_too() -> None:
    costs = plain()
    for _ in range(100):
        costs.observe(4, 0.02)
    for _ in range(200):
        costs.observe(4, 0.04)
    assert costs.step_s == pytest.approx(0.017, rel=0.05), "mostly the machine, though it could be the width"
    for _ in range(100):
        costs.observe(1, 0.02)
    for _ in range(100):
        costs.observe(4, 0.04)
    assert 2 < costs.verify(4) < 2.35, "until plain steps are seen: then it comes back"


def test_a_wide_pass_before_any_plain_one_is_a_ratio_to_nothing() -> None:
    costs = Costs()
    costs.observe(4, 0.02)
    assert costs.samples == 0
    assert costs.widest == 1


# Drafting


def test_drafting_costs_nothing_before_it_was_measured() -> None:
    assert plain().draft("draft", 5) == 0


def test_drafting_is_paid_per_token() -> None:
    costs = plain()
    for _ in range(3):
        costs.observe_draft("draft", 4, 0.008, in_step=True)
    assert costs.draft("draft", 1) == pytest.approx(0.2)
    assert costs.draft("draft", 6) == pytest.approx(1.2)
    assert costs.draft("other", 6) == 0


def test_a_call_that_found_nothing_is_paid_too() -> None:
    costs = plain()
    costs.observe_draft("draft", 0, 0.005, in_step=True)
    assert costs.draft("draft", 1) == pytest.approx(0.5)


def test_catching_up_with_a_long_pause_is_not_the_price_of_a_token() -> None:
    costs = plain()
    costs.observe_draft("draft", 1, 0.5, in_step=False)
    assert costs.draft("draft", 1) == 0, "the prompt was read first"
    costs.observe_draft("draft", 1, 0.002, in_step=True)
    for _ in range(50):
        costs.observe_draft("draft", 1, 0.05, in_step=False)
    assert costs.draft("draft", 1) == pytest.approx(0.2)
    for _ in range(50):
        costs.observe_draft("draft", 1, 0.001, in_step=False)
    assert costs.draft("draft", 1) == pytest.approx(0.1, rel=0.1), "but it shows when drafting has become cheaper"


# Kept between two starts


def known() -> Costs:
    costs = plain()
    for _ in range(10):
        costs.observe(2, 0.015)
        costs.observe(5, 0.03)
        costs.observe_draft("draft", 1, 0.001, in_step=True)
    return costs


def test_costs_survive_json() -> None:
    restored = Costs.from_dict(json.loads(json.dumps(known().to_dict())))
    assert [restored.verify(rows) for rows in (1, 2, 3, 5)] == pytest.approx(
        [known().verify(r) for r in (1, 2, 3, 5)]
    )
    assert restored.draft("draft", 3) == pytest.approx(0.3)
    assert restored.samples == 0, "the seconds of a plain step are measured anew"


def test_two_samples_outvote_what_was_restored() -> None:
    restored = Costs.from_dict(known().to_dict())
    for _ in range(3):
        restored.observe(1, 0.01)
    for _ in range(2):
        restored.observe(5, 0.08)
    assert restored.verify(5) == pytest.approx(8)


def test_a_single_sample_is_not_kept() -> None:
    """One pass that stalled would park a drafter in every session to come."""
    costs = plain()
    costs.observe(2, 0.05)
    costs.observe_draft("draft", 1, 0.05, in_step=True)
    assert costs.to_dict() == {"rows": {}, "drafts": {}}


def test_what_was_kept_stays_kept_though_it_was_not_used() -> None:
    assert Costs.from_dict(known().to_dict()).to_dict() == known().to_dict()


@pytest.mark.parametrize(
    "saved",
    [
        {},
        [],
        {"rows": {"2": 1.5}},
        {"rows": {"two": 1.5}, "drafts": {}},
        {"rows": {"1": 1.5}, "drafts": {}},
        {"rows": {"2": "much"}, "drafts": {}},
        {"rows": {"2": 0}, "drafts": {}},
        {"rows": {"2": -1.0}, "drafts": {}},
        {"rows": {"2": math.inf}, "drafts": {}},
        {"rows": {"2": math.nan}, "drafts": {}},
        {"rows": {}, "drafts": {"draft": None}},
        {"rows": [2, 1.5], "drafts": {}},
    ],
    ids=str,
)
def test_what_is_no_table_of_costs_is_refused(saved: Any) -> None:
    with pytest.raises(ValueError):
        Costs.from_dict(saved)
