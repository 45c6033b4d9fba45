from __future__ import annotations

import numpy as np
import pytest

from localspec.spec.acceptance import Acceptance, prior


def taught(*rounds: tuple[int, int], times: int = 50, evidence: int = 0) -> Acceptance:
    acceptance = Acceptance()
    for _ in range(times):
        for tested, accepted in rounds:
            acceptance.observe("draft", evidence, tested, accepted)
    return acceptance


def test_expected_tokens_are_one_and_the_survivors() -> None:
    expected = taught((1, 1), (2, 1), times=400).expected("draft", 0, 2)
    assert expected == pytest.approx([1, 2, 2], abs=0.05), "the first always, the second never"


def test_positions_are_conditional_on_the_ones_before() -> None:
    """Half of the drafts fail at once; what is left always goes on."""
    expected = taught((1, 0), (3, 3), times=400).expected("draft", 0, 3)
    assert expected == pytest.approx([1, 1.5, 2, 2.5], abs=0.06)


def test_short_drafts_do_not_dilute_deep_positions() -> None:
    acceptance = taught((3, 3))
    deep = acceptance.expected("draft", 0, 3)[3]
    for _ in range(200):
        acceptance.observe("draft", 0, 1, 1)
    assert acceptance.expected("draft", 0, 3)[3] == pytest.approx(deep, abs=0.05)


def test_a_position_that_was_never_seen_is_like_the_one_before() -> None:
    expected = taught((1, 1), times=500).expected("draft", 0, 3)
    assert expected == pytest.approx([1, 2, 3, 4], abs=0.1)


def test_drafters_and_kinds_of_evidence_are_learned_apart() -> None:
    acceptance = taught((1, 1), evidence=5)
    assert acceptance.expected("draft", 5, 1)[1] > 1.95
    assert acceptance.expected("draft", 4, 1)[1] == 1 + prior(4)
    assert acceptance.expected("other", 5, 1)[1] == 1 + prior(5)
    assert acceptance.weight("draft", 5) > acceptance.weight("draft", 4) == 0


def test_evidence_is_a_belief_in_eighths_and_classes_above_sixteen_are_only_kept_apart() -> None:
    assert prior(1) < prior(4) < prior(7) <= prior(8) < 1
    assert prior(7) == pytest.approx((7.5 / 8) ** 2)
    assert prior(16 + 4) == prior(4)


def rounds_until(acceptance: Acceptance, rate: float, reached: bool, rng: np.random.Generator) -> int:
    """How many rounds at that rate until the estimate passes the middle of 0.3 and 0.9."""
    for n in range(1, 200):
        acceptance.observe("draft", 0, 1, int(rng.random() < rate))
        if (acceptance.expected("draft", 0, 1)[1] > 1.6) == reached:
            return n
    return 200


def test_a_change_is_noticed_in_some_ten_rounds() -> None:
    falls, rises = [], []
    for seed in range(30):
        rng, acceptance = np.random.default_rng(seed), Acceptance()
        for _ in range(100):
            acceptance.observe("draft", 0, 1, int(rng.random() < 0.9))
        falls.append(rounds_until(acceptance, 0.3, False, rng))
        for _ in range(100):
            acceptance.observe("draft", 0, 1, int(rng.random() < 0.3))
        rises.append(rounds_until(acceptance, 0.9, True, rng))
    assert np.mean(falls) < 10
    assert np.mean(rises) < 14


@pytest.mark.parametrize("rate", [0.3, 0.8, 0.95])
def test_a_rate_that_does_not_change_is_known_well(rate: float) -> None:
    errors = []
    for seed in range(20):
        rng, acceptance = np.random.default_rng(seed), Acceptance()
        for _ in range(300):
            acceptance.observe("draft", 0, 1, int(rng.random() < rate))
        errors.append(acceptance.expected("draft", 0, 1)[1] - 1 - rate)
    assert np.sqrt(np.mean(np.square(errors))) < 0.06


def test_when_a_position_changes_the_deeper_ones_are_doubted() -> None:
    acceptance = taught((3, 3), times=100)
    assert acceptance.weight("draft", 0, 3) > 50
    for _ in range(20):
        acceptance.observe("draft", 0, 1, 0)
    assert acceptance.weight("draft", 0, 3) <= 2


# Drafters that stop by themselves


def test_a_drafter_that_goes_on_drafts_what_it_is_asked_for() -> None:
    assert Acceptance().drafted("draft", 3) == [0, 1, 2, 3]


def test_a_drafter_that_stops_drafts_less() -> None:
    acceptance = Acceptance()
    for _ in range(200):
        acceptance.observe_length("draft", 4, 2)
        acceptance.observe_length("draft", 4, 4)
    drafted = acceptance.drafted("draft", 6)
    assert drafted[:5] == pytest.approx([0, 1, 2, 2.5, 3], abs=0.1)
    assert drafted[6] == pytest.approx(4, abs=0.2), "further out it goes on as often as at the end"


def test_being_asked_for_little_says_nothing_about_the_length() -> None:
    acceptance = Acceptance()
    for _ in range(50):
        acceptance.observe_length("draft", 1, 1)
    assert acceptance.drafted("draft", 3) == pytest.approx([0, 1, 2, 3])


def test_the_classes_of_a_drafter_with_their_weights() -> None:
    acceptance = taught((1, 1), (1, 0), times=2, evidence=3)
    acceptance.observe("draft", 5, 2, 1)
    acceptance.observe("other", 7, 1, 1)
    assert acceptance.classes("draft") == pytest.approx({3: 4, 5: 1}, abs=0.1)
