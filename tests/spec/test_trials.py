from __future__ import annotations

from collections import Counter

import pytest

from localspec.spec.trials import Trials


def spend(losses: dict[str, float], rounds: int, best: float, cost: float, tokens: int = 1) -> Counter[str]:
    """What is tried in so many rounds when each trial costs and gives this."""
    trials, tried = Trials(), Counter[str]()
    for _ in range(rounds):
        what = trials.due(losses, best)
        if what is None:
            trials.passed("off" if best <= 1 else "best", trial=False, cost=1, tokens=1)
            continue
        tried[what] += 1
        trials.passed(what, trial=True, cost=cost, tokens=tokens)
    return tried


def test_what_was_never_tried_is_tried_at_once() -> None:
    assert Trials().due({"draft": 5.0}, best=1.0) == "draft"
    assert Trials().due({"draft": 5.0}, best=2.0) == "draft"
    assert Trials().due({}, best=2.0) is None


def test_but_for_what_is_watched_anyway() -> None:
    assert Trials().due({"lookup": 0.5}, best=1.0, watched={"lookup"}) is None


@pytest.mark.parametrize("names", [("draft",), ("draft", "other", "third")])
def test_trials_beside_plain_decoding_cost_a_small_share_of_the_time(names: tuple[str, ...]) -> None:
    tried = spend(dict.fromkeys(names, 0.65), 2000, best=1.0, cost=1.65)
    assert 0.65 * tried.total() < 0.005 * 2000
    assert len(tried) == len(names)
    assert max(tried.values()) - min(tried.values()) <= 1, "in turn"


def test_trials_beside_a_drafter_that_wins_cost_as_little() -> None:
    tried = spend({"a": 0.5, "b": 0.1}, 5000, best=2.0, cost=1.0)
    assert 0.5 * tried["a"] + 0.1 * tried["b"] < 0.005 * 5000
    assert tried["b"] > 3 * tried["a"], "the cheaper one more often"


def test_a_trial_that_beats_the_best_is_repeated_at_once() -> None:
    assert spend({"draft": 0.5}, 50, best=1.0, cost=2.0, tokens=3)["draft"] == 50
    assert spend({"draft": 0.5}, 50, best=1.4, cost=2.0, tokens=3)["draft"] == 50


def test_one_that_is_right_and_still_slower_is_not() -> None:
    """A single token that is always accepted, beside a drafter that gives ten."""
    assert spend({"draft": 0.5}, 50, best=10.0, cost=1.02, tokens=2)["draft"] <= 2


def test_what_was_saved_pays_for_trials_later() -> None:
    counts = []
    for saved in (1, 3):
        trials, tried = Trials(), 0
        for _ in range(100):
            trials.passed("off" if saved == 1 else "draft", trial=False, cost=1, tokens=saved)
        for _ in range(200):
            what = trials.due({"draft": 0.6}, best=1.0)
            tried += what is not None
            trials.passed(what or "off", trial=what is not None, cost=1.6 if what else 1, tokens=1)
        counts.append(tried)
    assert counts[0] <= 3
    assert counts[1] >= 8


def test_a_drafter_that_was_used_lately_needs_no_trial() -> None:
    trials = Trials()
    trials.passed("draft", trial=False, cost=1, tokens=1)
    assert trials.due({"draft": 0.5}, best=1.0) is None
