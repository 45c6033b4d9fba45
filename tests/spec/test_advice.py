from __future__ import annotations

import pytest

from localspec.spec.advice import LENGTHS, advise
from localspec.spec.controller import PLAIN, Choice, Controller
from localspec.spec.types import Draft
from tests.spec.simulation import CPU, GPU, one_round

LONGEST = LENGTHS[-1]


def measured(
    table: tuple[float, ...], draft: float, right: int, asked: int = LONGEST, times: int = 100
) -> Controller:
    """All widths are known, without noise; a draft's first `right` tokens are accepted in every round."""
    controller = Controller()
    for _ in range(4):
        controller.observe(PLAIN, one_round("off", (), 0.0, 0.01))
    for k in LENGTHS:
        for _ in range(4):
            controller.costs.observe(k + 1, 0.01 * table[k])
    tokens = ((0,) * right + (1,) * asked)[:asked]
    for _ in range(times):
        pass_s = 0.01 * table[asked]
        controller.observe(Choice("draft", asked), one_round("draft", tokens, 0.01 * draft * asked, pass_s))
    return controller


def test_the_curve_is_expected_tokens_over_the_price() -> None:
    advice = advise(measured(CPU, 0.1, right=4), "draft")
    assert len(advice.speedups) == len(LENGTHS)
    for k in (1, 2, 4):
        assert advice.speedups[k - 1] == pytest.approx((k + 1) / (CPU[k] + 0.1 * k), rel=0.05)
    assert advice.speedups[11] == pytest.approx(5 / (CPU[12] + 1.2), rel=0.05)


def test_the_best_length_and_a_plain_sentence() -> None:
    advice = advise(measured(CPU, 0.1, right=4), "draft")
    assert advice.best == 4
    assert advice.sentence == "draft gives 1.3x here at k=4"


def test_break_even_is_what_a_second_row_costs() -> None:
    assert advise(measured(CPU, 0.0, right=4), "draft").break_even == pytest.approx(0.65, rel=0.02)
    assert advise(measured(GPU, 0.1, right=4), "draft").break_even == pytest.approx(0.12, rel=0.05)


def test_a_dear_draft_cannot_pay_whatever_it_proposes() -> None:
    advice = advise(measured(GPU, 1.2, right=LONGEST), "draft")
    assert advice.best == 0
    assert advice.sentence == "draft costs 1.2 of a target step per token: it can't pay here"


def test_a_draft_that_is_mostly_wrong_is_told_what_it_lacks() -> None:
    advice = advise(measured(CPU, 0.0, right=0), "draft")
    assert advice.best == 0
    assert advice.sentence == "draft is right 2% of the time, and a pass pays from 65% on"


def test_kinds_of_evidence_count_as_often_as_they_were_seen() -> None:
    controller = measured(GPU, 0.0, right=0, times=0)
    good, bad = Draft((0, 0), source="lookup", evidence=7), Draft((1, 1), source="lookup", evidence=2)
    for i in range(80):
        proposal = good if i % 4 == 0 else bad
        controller.observe(PLAIN, one_round("off", (), 0.0, 0.01), {"lookup": proposal})
    assert advise(controller, "lookup").speedups[0] == pytest.approx(1.25 / GPU[1], rel=0.06)


def test_without_figures_there_is_no_advice() -> None:
    for controller in (Controller(), measured(CPU, 0.1, right=4)):
        advice = advise(controller, "suffix")
        assert (advice.speedups, advice.best, advice.break_even) == ((), 0, None)
        assert advice.sentence == "suffix has not been tried yet"


def test_a_draft_that_stops_by_itself_is_charged_for_what_it_drafts() -> None:
    controller = measured(CPU, 0.1, right=2, asked=2, times=0)
    for _ in range(100):
        controller.observe(Choice("draft", 8), one_round("draft", (0, 0), 0.002, 0.01 * CPU[2]))
    assert advise(controller, "draft").speedups[7] == pytest.approx(3 / (CPU[2] + 0.2), rel=0.06)


def test_proposals_of_which_none_was_looked_at_tell_nothing() -> None:
    controller = measured(CPU, 0.1, right=4)
    controller.observe(PLAIN, one_round("off", (), 0.0, 0.01), {"lookup": Draft((), source="lookup")})
    advice = advise(controller, "lookup")
    assert advice.speedups == () and advice.sentence == "lookup has not been tried yet"
