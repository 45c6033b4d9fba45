from __future__ import annotations

from collections import Counter

import pytest

from localspec.spec.trials import Trials


def spend(losses: dict[str, float], rounds: int, *, parked: bool, cost: float, fails: bool = True) -> Counter[str]:
    """What is tried in so many rounds when each trial of a plain step's cost gives a token less or more."""
    trials, tried = Trials(), Counter[str]()
    for _ in range(rounds):
        what = trials.due(losses, parked=parked)
        if what is None:
            trials.passed("off" if parked else "best", trial=False, cost=1, tokens=1, whole=False)
            continue
        tried[what] += 1
        trials.passed(what, trial=True, cost=cost, tokens=1 if fails else 3, whole=not fails)
    return tried


def test_what_was_never_tried_is_tried_at_once() -> None:
    assert Trials().due({"draft": 5.0}, parked=True) == "draft"
    assert Trials().due({"draft": 5.0}, parked=False) == "draft"
    assert Trials().due({}, parked=False) is None


@pytest.mark.parametrize("names", [("draft",), ("draft", "other", "third")])
def test_trials_beside_plain_decoding_cost_a_small_share_of_the_time(names: tuple[str, ...]) -> None:
    tried = spend(dict.fromkeys(names, 0.65), 2000, parked=True, cost=1.65)
    assert 0.65 * tried.total() < 0.005 * 2000
    assert len(tried) == len(names)
    assert max(tried.values()) - min(tried.values()) <= 1, "in turn"


def test_trials_beside_a_drafter_that_wins_cost_as_little() -> None:
    tried = spend({"a": 0.5, "b": 0.1}, 5000, parked=False, cost=1.0)
    assert 0.5 * tried["a"] + 0.1 * tried["b"] < 0.005 * 5000
    assert tried["b"] > 3 * tried["a"], "the cheaper one more often"


def test_a_trial_that_goes_well_is_repeated_at_once() -> None:
    assert spend({"draft": 0.5}, 50, parked=True, cost=2.0, fails=False)["draft"] == 50


def test_what_was_saved_pays_for_trials_later() -> None:
    poor, rich = Trials(), Trials()
    for _ in range(100):
        poor.passed("off", trial=False, cost=1, tokens=1, whole=False)
        rich.passed("draft", trial=False, cost=1, tokens=3, whole=True)
    counts = []
    for trials in (poor, rich):
        tried = 0
        for _ in range(200):
            what = trials.due({"draft": 0.6}, parked=True)
            tried += what is not None
            trials.passed(what or "off", trial=what is not None, cost=1.6 if what else 1, tokens=1, whole=False)
        counts.append(tried)
    assert counts[0] <= 3
    assert counts[1] >= 8


def test_a_drafter_that_was_used_lately_needs_no_trial() -> None:
    trials = Trials()
    trials.passed("draft", trial=False, cost=1, tokens=1, whole=False)
    assert trials.due({"draft": 0.5}, parked=True) is None
