"""The controller on simulated machines and texts. Regret is the share of the time that an oracle would have saved
which knows every rate and cost; the first 200 rounds are for learning."""

from __future__ import annotations

import pytest

from localspec.spec.controller import PLAIN, Controller, Option
from tests.spec.simulation import (
    MACHINES,
    Machine,
    Source,
    Text,
    alternating,
    draft,
    drifting,
    flat,
    liar,
    lookup,
    mean,
    regret,
    runs,
    simulate,
    steep,
)

# Where acceptance is steady


@pytest.mark.parametrize("cost", [0.0, 0.1])
@pytest.mark.parametrize(
    "text",
    [flat(0.95), flat(0.8), flat(0.65), flat(0.5), flat(0.02), steep(0.9, 0.7)],
    ids=["flat 0.95", "flat 0.8", "flat 0.65", "flat 0.5", "never right", "steep"],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_steady_acceptance_costs_at_most_three_percent(machine: str, text: Text, cost: float) -> None:
    assert regret(runs(draft(text, cost), machine=MACHINES[machine])) < 0.03


@pytest.mark.parametrize("machine", MACHINES)
def test_so_do_two_models_that_compete(machine: str) -> None:
    pair = draft(flat(0.8)), draft(flat(0.6), name="smaller")
    assert regret(runs(*pair, machine=MACHINES[machine])) < 0.03


@pytest.mark.parametrize("machine", MACHINES)
def test_so_does_a_lookup_that_is_mostly_silent(machine: str) -> None:
    assert regret(runs(lookup(), machine=MACHINES[machine])) < 0.03


@pytest.mark.parametrize("machine", MACHINES)
def test_so_do_two_lookups_and_a_model(machine: str) -> None:
    three = lookup(), lookup("suffix", 0.3, {4: 0.5, 6: 0.3, 7: 0.2}), draft(flat(0.7))
    assert regret(runs(*three, machine=MACHINES[machine])) < 0.035


def test_flat_forward_selects_deep() -> None:
    run = simulate([draft(flat(0.95), 0.0)], MACHINES["gpu"])
    assert run.most_common(300, 1200) >= 15


def test_steep_acceptance_selects_shallow() -> None:
    run = simulate([draft(steep(0.9, 0.5), 0.0)], MACHINES["gpu"])
    assert run.most_common(300, 1200) in (2, 3)


def test_a_cliff_is_not_climbed() -> None:
    table = (1.0, 1.02, 1.04, 1.06, *(8.0 + 0.1 * i for i in range(60)))
    run = simulate([draft(flat(0.8), 0.0)], Machine(table))
    assert run.most_common(100, 1200) == 3
    assert sum(choice.k > 3 for choice in run.choices[100:]) < 10


def test_what_is_cheaper_behind_a_dear_width_is_found() -> None:
    table = (1.0, 1.5, 2.0, 2.5, 2.0, *(2.0 + 0.2 * i for i in range(1, 60)))
    run = simulate([draft(flat(0.85), 0.0)], Machine(table), 1500)
    assert run.most_common(600, 1500) >= 4


def test_a_worthless_draft_is_parked() -> None:
    run = simulate([draft(flat(0.3))], MACHINES["cpu"])
    assert sum(choice.k > 0 for choice in run.choices) < 30
    assert run.choices[-1].k == 0
    assert run.choices[-1].rival == "draft"


# Where it changes


@pytest.mark.parametrize("machine", MACHINES)
def test_a_text_that_alternates_costs_at_most_seven_percent(machine: str) -> None:
    texts = [alternating(flat(0.95), flat(0.3), period) for period in (100, 200, 300)]
    sources = [draft(text, cost) for text in texts for cost in (0.0, 0.1)]
    assert regret(run for source in sources for run in runs(source, machine=MACHINES[machine])) < 0.07


@pytest.mark.parametrize("text", [drifting(0.9, 0.3, 1000), drifting(0.3, 0.9, 1000)], ids=["down", "up"])
@pytest.mark.parametrize("machine", MACHINES)
def test_drift_is_followed(machine: str, text: Text) -> None:
    assert regret(runs(draft(text), machine=MACHINES[machine])) < 0.04


def test_when_the_better_model_changes_the_other_one_is_found() -> None:
    one = draft(alternating(flat(0.9), flat(0.3), 300))
    other = draft(alternating(flat(0.3), flat(0.9), 300), name="other")
    found = runs(one, other, machine=MACHINES["gpu"], rounds=1200)
    assert regret(found) < 0.065
    assert {choice.source for choice in found[0].choices[200:300]} >= {"draft"}
    assert sum(choice.source == "other" for choice in found[0].choices[400:600]) > 150


# Against plain decoding


@pytest.mark.parametrize(
    "sources",
    [
        (draft(flat(0.02)),),
        (draft(flat(0.5)),),
        (
            draft(flat(0.02)),
            draft(flat(0.02), name="smaller"),
        ),
        (lookup(mix={2: 1.0, 3: 1.0}),),
        (lookup(mix={2: 1.0}), lookup("suffix", mix={3: 1.0}), draft(flat(0.05))),
    ],
    ids=["never right", "half right", "two", "a poor lookup", "three"],
)
def test_where_nothing_helps_less_than_one_percent_is_lost(sources: tuple[Source, ...]) -> None:
    found = runs(*sources, machine=MACHINES["cpu"], rounds=1500, seeds=range(12))
    assert mean(run.loss(150) for run in found) < 0.01
    assert mean(run.loss(1500) for run in found) < 0.0075


@pytest.mark.parametrize("source", [draft(flat(0.3), 0.9), liar()], ids=["dear", "a lookup that lies"])
def test_what_looks_good_and_is_not_costs_a_few_trials(source: Source) -> None:
    found = runs(source, machine=MACHINES["cpu"], rounds=1500, seeds=range(8))
    assert mean(run.loss(150) for run in found) < 0.015
    assert mean(run.loss(1500) for run in found) < 0.0075


def test_a_model_that_must_read_what_it_missed_is_tried_the_more_rarely() -> None:
    behind = Source("draft", flat(0.1), 0.1, reads=0.05)
    found = runs(behind, machine=MACHINES["cpu"], rounds=3000, seeds=range(4))
    assert mean(run.loss(3000) for run in found) < 0.006
    winner = lookup(chance=1.0, mix={7: 1.0})
    beside = runs(winner, behind, machine=MACHINES["gpu"], rounds=1500, seeds=range(4))
    alone = runs(winner, machine=MACHINES["gpu"], rounds=1500, seeds=range(4))
    assert mean(run.speed() for run in beside) > 0.96 * mean(run.speed() for run in alone)


def test_plain_decoding_is_measured_first_and_briefly() -> None:
    run = simulate([draft(flat(0.9))], MACHINES["gpu"], rounds=5)
    assert [choice.k > 0 for choice in run.choices] == [False, False, False, True, True]
    assert run.choices[2] == PLAIN


def test_a_drafter_that_proposes_anyway_is_judged_without_being_used() -> None:
    run = simulate([Source("lookup", flat(0.95), free=True)], MACHINES["gpu"], rounds=8)
    assert [choice.trial for choice in run.choices[:4]] == [""] * 4
    assert run.choices[4].k > 0


def test_nobody_is_asked_for_more_than_there_is() -> None:
    """The simulation asserts it for each round."""
    simulate([lookup(chance=1.0)], MACHINES["gpu"], rounds=300)
    assert Controller().choose([]) == PLAIN
    assert Controller().choose([Option("lookup", 0)]) == PLAIN
