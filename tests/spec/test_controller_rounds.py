"""The controller and what really happens in a round: stalls, slow machines, drafters that stop, what is learned."""

from __future__ import annotations

import pytest

from localspec.spec.controller import LADDER, LONGER, MARGIN, PLAIN, Choice, Controller, Option
from localspec.spec.costs import Costs
from localspec.spec.types import Draft
from tests.spec.simulation import (
    CPU,
    GPU,
    MACHINES,
    SEEDS,
    Machine,
    Source,
    draft,
    flat,
    lookup,
    mean,
    one_round,
    regret,
    runs,
    simulate,
)

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
