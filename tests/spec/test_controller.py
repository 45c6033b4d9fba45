"""The controller on simulated machines and texts. Regret is the share of the time that an oracle would have saved
which knows every rate and cost; the first 200 rounds are for learning."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from localspec.spec.controller import LADDER, LONGER, MARGIN, PLAIN, Choice, Controller, Option
from localspec.spec.costs import Costs
from localspec.spec.types import Draft
from tests.spec.simulation import (
    CPU,
    GPU,
    Machine,
    Run,
    Source,
    Text,
    alternating,
    drifting,
    flat,
    mean,
    one_round,
    seldom,
    simulate,
    steep,
)

MACHINES = {"cpu": Machine(CPU), "gpu": Machine(GPU)}
SEEDS = range(4)
BY_EVIDENCE = {2: 0.2, 3: 0.3, 4: 0.45, 5: 0.6, 6: 0.8, 7: 0.93}
MIXED = {2: 0.5, 3: 0.2, 4: 0.1, 6: 0.1, 7: 0.1}  # how often a lookup has what evidence


def draft(text: Text, cost: float = 0.1, name: str = "draft") -> Source:
    return Source(name, text, cost)


def lookup(name: str = "lookup", chance: float = 0.4, mix: dict[int, float] | None = None) -> Source:
    offers = seldom(chance, mix or MIXED)
    return Source(name, flat(0.2), free=True, offers=offers, by_evidence=BY_EVIDENCE)


def liar(name: str = "lookup") -> Source:
    """Its evidence promises much, and nearly all of it is wrong."""
    return Source(name, flat(0.1), free=True, offers=seldom(0.4, MIXED))


def runs(*sources: Source, machine: Machine, rounds: int = 1000, seeds: Iterable[int] = SEEDS) -> list[Run]:
    return [simulate(sources, machine, rounds, seed=seed) for seed in seeds]


def regret(found: Iterable[Run]) -> float:
    return mean(run.regret() for run in found)


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
    assert run.most_common(600, 1500) in (4, 5)


def test_a_worthless_draft_is_parked() -> None:
    run = simulate([draft(flat(0.3))], MACHINES["cpu"])
    assert sum(choice.k > 0 for choice in run.choices) < 30
    assert run.choices[-1].k == 0
    assert run.choices[-1].rival == "draft"


# Where it changes


@pytest.mark.parametrize("machine", MACHINES)
def test_a_text_that_alternates_costs_at_most_six_percent(machine: str) -> None:
    texts = [alternating(flat(0.95), flat(0.3), period) for period in (100, 200, 300)]
    sources = [draft(text, cost) for text in texts for cost in (0.0, 0.1)]
    assert regret(run for source in sources for run in runs(source, machine=MACHINES[machine])) < 0.06


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
    assert sum(choice.source == "other" for choice in found[0].choices[400:600]) > 180


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
    found = runs(behind, machine=MACHINES["cpu"], rounds=3000)
    assert mean(run.loss(3000) for run in found) < 0.006
    winner = lookup(chance=1.0, mix={7: 1.0})
    beside = runs(winner, behind, machine=MACHINES["gpu"], rounds=1500)
    alone = runs(winner, machine=MACHINES["gpu"], rounds=1500)
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


# The machine


def settled(machine: Machine, source: Source) -> Controller:
    controller = Controller()
    simulate([source], machine, 300, controller=controller)
    return controller


def best(controller: Controller) -> int:
    """The draft length that it holds to be the best, 0 for plain decoding."""
    curve = controller.speedups(Option("draft", LADDER[-1])) | {0: MARGIN}
    return max(curve, key=curve.__getitem__)


@pytest.mark.parametrize("rate", [0.8, 0.3])
def test_one_stall_does_not_flip_it(rate: float) -> None:
    """At 0.8 the best length is clear on this card, at 0.3 it is to rest on this processor."""
    machine = Machine(GPU if rate > 0.5 else CPU, noise=0.0, stalls=0.0)
    controller = settled(machine, draft(flat(rate)))
    before = best(controller)
    assert (before > 0) == (rate > 0.5)
    for k in {before, 1}:
        controller.observe(Choice("draft", k), one_round("draft", (0,) * k, 0.001 * k, 100 * 0.01))
        assert best(controller) == before


def test_a_first_pass_that_stalls_does_not_condemn_its_width() -> None:
    """Building the graph of a new width takes long, once."""
    controller, table = Controller(), MACHINES["gpu"].table
    option = Option("draft", LADDER[-1])
    for k in (0, 0, 0, 1, 2, 3, 3, 3):
        first = 20 if k > 0 and controller.costs.widest <= k else 1
        choice = Choice("draft", k) if k else PLAIN
        controller.observe(choice, one_round(choice.source, (0,) * k, 0.001 * k, 0.01 * first * table[k]))
    assert controller.speedups(option)[3] > 2


@pytest.mark.parametrize("machine", MACHINES)
def test_passes_that_slow_down_with_the_context_change_nothing(machine: str) -> None:
    growing = Machine(MACHINES[machine].table, growth=0.5)
    assert regret(runs(draft(flat(0.85)), machine=growing, rounds=2000, seeds=range(2))) < 0.03


def test_a_machine_that_is_suddenly_half_as_fast_changes_nothing() -> None:
    busy = Machine(GPU, slow=lambda round: 2.0 if round >= 400 else 1.0)
    found = runs(draft(flat(0.85)), machine=busy)
    assert mean(run.regret(400) for run in found) < 0.04


@pytest.mark.parametrize(
    ("now", "most"), [("gpu", 0.03), ("cpu", 0.04)], ids=["the same machine", "another machine"]
)
def test_restored_costs_are_used_and_corrected(now: str, most: float) -> None:
    saved = settled(MACHINES["gpu"], draft(flat(0.9))).costs.to_dict()
    found = [
        simulate([draft(flat(0.9))], MACHINES[now], 800, seed=seed, controller=Controller(Costs.from_dict(saved)))
        for seed in SEEDS
    ]
    assert regret(found) < most
    if now == "gpu":
        assert all(run.choices[12].k > 3 for run in found), "no width has to be found again"


# Drafters that stop by themselves


def test_a_drafter_that_stops_early_is_judged_by_what_it_drafts() -> None:
    """It knows when it would be wrong: asked for many tokens it gives few, and those are right."""
    source = Source("draft", flat(0.95), 0.1, stops=lambda rng: int(rng.geometric(0.3)))
    controller = Controller()
    run = simulate([source], MACHINES["cpu"], 1000, controller=controller)
    late = slice(500, 1000)
    drafted = [choice for choice in run.choices[late] if choice.k > 0]
    assert len(drafted) > 450
    promised = mean(choice.speedup or 0.0 for choice in drafted)
    assert promised == pytest.approx(sum(run.tokens[late]) / sum(run.cost[late]), rel=0.06)


# The record


def test_the_same_past_gives_the_same_choices() -> None:
    first, second = (simulate([lookup(), draft(flat(0.7))], MACHINES["cpu"], 300, seed=5) for _ in range(2))
    assert first.choices == second.choices


def test_trials_say_what_they_try() -> None:
    run = simulate([draft(flat(0.9)), draft(flat(0.5), name="other")], MACHINES["gpu"])
    tried = {choice.trial for choice in run.choices}
    assert tried >= {"", "draft", "other", "off", LONGER}


def test_an_accepted_end_says_nothing_about_the_tokens_behind_it() -> None:
    controller = settled(MACHINES["gpu"], draft(flat(0.9)))
    before = controller.acceptance.expected("draft", 0, 5)
    choice = Choice("draft", 5)
    ended = one_round("draft", (0,) * 5, 0.005, 0.013, emitted=2)
    controller.observe(choice, ended)
    after = controller.acceptance.expected("draft", 0, 5)
    assert after[2] > before[2]
    assert after[5] / after[2] == pytest.approx(before[5] / before[2], rel=0.01)


def test_the_text_teaches_about_a_certain_proposal_up_to_its_first_error() -> None:
    controller = Controller()
    proposal = Draft((0, 0, 1, 0), source="lookup", evidence=5)
    controller.observe(PLAIN, one_round("off", (), 0.0, 0.01), {"lookup": proposal})
    assert controller.acceptance.depth("lookup", 5) == 1, "one token came, so one was compared"
    controller.observe(Choice("draft", 6), one_round("draft", (0,) * 6, 0.0, 0.01), {"lookup": proposal})
    assert controller.acceptance.depth("lookup", 5) == 3, "right, right, wrong"
    assert controller.acceptance.weight("lookup", 5) == pytest.approx(2, rel=0.02)
