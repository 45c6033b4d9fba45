"""Several drafters under one controller, in the real loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from localspec.errors import ModelError
from localspec.spec import decoder as decoding
from localspec.spec.controller import LADDER, PLAIN, Choice, Controller, Option
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.auto import Auto
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.drafters.suffix import Suffix
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Round, Tokens
from localspec.spec.verify import VERIFIERS
from tests.fakes import FakeDrafter, FakeModel, never, rambling, saying
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, own_draft, quiet, ready, text
from tests.spec.simulation import GPU, one_round

CONTEXT = np.array([1, 2, 3, 1, 2], np.int32)


@dataclass
class Scripted(Controller):
    """Chooses what it is told to, and remembers what it was offered and taught."""

    plan: list[Choice] = field(default_factory=list)
    offered: list[Sequence[Option]] = field(default_factory=list)
    taught: list[tuple[Choice, Round, Any]] = field(default_factory=list)

    def choose(self, options: Sequence[Option]) -> Choice:
        self.offered.append(options)
        return self.plan.pop(0) if self.plan else PLAIN

    def observe(self, choice: Choice, round: Round, watched: Any = None) -> None:
        self.taught.append((choice, round, dict(watched or {})))


@dataclass
class Saying:
    """Proposes the same in every round, or fails."""

    name: str
    tokens: tuple[int, ...] = ()
    free: bool = False
    evidence: int = 0
    fails: bool = False
    asked: list[int] = field(default_factory=list)

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self.asked.append(limit)
        if self.fails:
            raise ModelError("The computation failed.")
        return Draft(self.tokens[:limit], source=self.name, evidence=self.evidence)

    def close(self) -> None:
        raise AssertionError("members belong to whoever made them")


def propose(auto: Auto, limit: int = 8) -> Draft:
    return auto.draft(CONTEXT, limit, GREEDY, default_rng(0))


def scripted(*members: Drafter, plan: Sequence[Choice] = (), **options: Any) -> tuple[Auto, Scripted]:
    controller = Scripted(plan=list(plan))
    return Auto(members, controller, **options), controller


# Who is asked, and for how much


def test_free_members_are_asked_before_the_choice_and_cut_the_others_after_it() -> None:
    free, model = Saying("lookup", (1, 2, 3, 4, 5), free=True, evidence=4), Saying("draft", (7,) * 9)
    auto, controller = scripted(free, model, plan=[Choice("lookup", 3), Choice("draft", 5)])
    assert propose(auto).tokens == (1, 2, 3)
    assert (free.asked, model.asked) == ([8], [])
    assert propose(auto).tokens == (7,) * 5
    assert (free.asked, model.asked) == ([8, 8], [5])
    assert controller.offered[0] == [Option("lookup", 5, 4, free=True), Option("draft", 8)]


def test_what_is_chosen_to_rest_rests() -> None:
    model = Saying("draft", (7,) * 9)
    auto, _ = scripted(model, plan=[PLAIN])
    assert propose(auto) == Draft()
    assert model.asked == []


def test_real_lookups_are_free() -> None:
    auto, controller = scripted(Lookup(), Suffix(), own_draft(rambling(V)))
    propose(auto)
    assert [(option.source, option.free) for option in controller.offered[0]] == [
        ("lookup", True),
        ("suffix", True),
        ("fake", False),
    ]


def test_it_is_its_own_length_policy() -> None:
    auto, _ = scripted(Lookup())
    assert auto.next() == LADDER[-1]
    assert Auto([Lookup()], Controller(), longest=4).next() == 4


# What the controller is taught


def test_the_controller_sees_the_round_and_the_whole_proposals() -> None:
    free = Saying("lookup", (1, 2, 3, 4, 5), free=True)
    auto, controller = scripted(free, plan=[Choice("lookup", 2)])
    propose(auto)
    round = one_round("lookup", (1, 2), 0.001, 0.01)
    auto.observe(round)
    choice, seen, watched = controller.taught[0]
    assert (choice, seen) == (Choice("lookup", 2), round)
    assert watched["lookup"].tokens == (1, 2, 3, 4, 5), "also what was cut"


def test_a_round_without_room_is_nobodys_choice() -> None:
    auto, controller = scripted(Saying("lookup", (1, 2), free=True), plan=[Choice("lookup", 2)])
    propose(auto)
    full = one_round("off", (), 0.0, 0.01)
    auto.observe(Round(**{f: getattr(full, f) for f in Round.__slots__} | {"limit": 0}))
    assert controller.taught == [(PLAIN, controller.taught[0][1], {})]


# Failures


def test_a_drafter_that_fails_costs_its_draft_and_not_the_answer() -> None:
    broken = Saying("draft", fails=True)
    auto, _ = scripted(broken, plan=[Choice("draft", 5)] * 2)
    assert propose(auto) == Draft()
    assert auto.problems == {}


@pytest.mark.parametrize("free", [True, False])
def test_after_three_failures_in_a_row_it_is_left_out_with_a_reason(free: bool) -> None:
    broken, other = Saying("draft", fails=True, free=free), Saying("other", (3,), free=True)
    auto, controller = scripted(broken, other, plan=[Choice("draft", 5)] * 3)
    for _ in range(3):
        propose(auto)
    assert auto.problems == {"draft": "draft is left out, it failed 3 times in a row: The computation failed."}
    propose(auto)
    assert len(broken.asked) == 3
    assert [option.source for option in controller.offered[-1]] == ["other"]


def test_a_success_in_between_is_a_new_beginning() -> None:
    shaky = Saying("draft", (1,))
    auto, _ = scripted(shaky, plan=[Choice("draft", 5)] * 9)
    for i in range(9):
        shaky.fails = i % 3 < 2
        propose(auto)
    assert auto.problems == {}


def test_an_answer_survives_a_draft_that_breaks_in_the_middle() -> None:
    def script(context: tuple[int, ...]) -> Any:
        return np.full(V, np.nan) if len(context) > len(PROMPT) + 20 else rambling(V)(context)

    plain = text(answer(ready(FakeModel(rambling(V), V), Off()), max_tokens=100))
    auto, _ = scripted(FakeDrafter(FakeModel(script, V)), plan=[Choice("fake", 3)] * 100)
    decoder = SpeculativeDecoder(FakeModel(rambling(V), V), auto, auto)
    decoder.prefill(PROMPT, quiet, lambda: False)
    assert text(answer(decoder, max_tokens=100)) == plain
    assert "NaN" in auto.problems["fake"]


# In the loop


def members() -> list[Drafter]:
    return [Lookup(), Suffix(), own_draft(rambling(V, seed=4))]


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
def test_whatever_is_chosen_greedy_text_is_that_of_plain_decoding(verifier: str, sampling: Sampling) -> None:
    script = rambling(V, seed=5)
    plan = [
        Choice("lookup", 3), PLAIN, Choice("suffix", 2), Choice("fake", 4), Choice("fake", 1), Choice("lookup", 8)
    ]  # fmt: skip
    auto, _ = scripted(*members(), plan=plan * 60)
    decoder = SpeculativeDecoder(FakeModel(script, V), auto, auto, VERIFIERS[verifier])
    decoder.prefill(PROMPT, quiet, lambda: False)
    rounds = list(decoder.generate(PROMPT, sampling, 7, never, 200))
    assert {r.source for r in rounds} == {"off", "lookup", "suffix", "fake"}
    assert {r.method for r in rounds} == {"auto"}
    if sampling is GREEDY:
        assert text(rounds) == text(answer(ready(FakeModel(script, V), Off()), max_tokens=200))


def test_with_one_member_it_is_that_drafter_with_an_automatic_length() -> None:
    auto = Auto([Lookup()], Controller(), name="lookup")
    decoder = SpeculativeDecoder(FakeModel(rambling(V), V), auto, auto)
    decoder.prefill(PROMPT, quiet, lambda: False)
    rounds = answer(decoder, max_tokens=150)
    assert {r.method for r in rounds} == {"lookup"}
    assert text(rounds) == text(answer(ready(FakeModel(rambling(V), V), Off()), max_tokens=150))


def test_the_real_controller_learns_from_the_loop() -> None:
    auto = Auto(members(), Controller())
    decoder = SpeculativeDecoder(FakeModel(rambling(V), V), auto, auto)
    decoder.prefill(PROMPT, quiet, lambda: False)
    answer(decoder, max_tokens=60)
    controller = auto.controller
    assert not controller.measuring
    assert sum(controller.acceptance.classes("lookup").values()) > 5, "watched in each round"
    assert controller.acceptance.weight("fake", 0) > 0, "tried"


class Timed(FakeModel):
    """A pass takes what the table says, on a clock of its own."""

    now = 0.0

    def decode(self, tokens: Tokens, *, rows: int) -> Any:
        Timed.now += 0.01 * GPU[rows - 1] if rows else 0.0
        return super().decode(tokens, rows=rows)


def test_a_text_that_copies_itself_is_soon_followed_by_long_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two lookups that are both right: trials of the one must not keep the other from its length."""
    passage = default_rng(3).integers(1, 200, size=40).tolist()
    written = [*passage, *passage, *passage, *passage, *passage]
    target = Timed(saying(written, 201, len(PROMPT)), 201)
    monkeypatch.setattr(decoding, "perf_counter", lambda: Timed.now)
    auto = Auto([Lookup(), Suffix()], Controller())
    decoder = SpeculativeDecoder(target, auto, auto)
    decoder.prefill(PROMPT, quiet, lambda: False)
    Timed.now = 0.0
    rounds = answer(decoder, max_tokens=200)
    assert text(rounds) == written
    assert max(len(r.drafted) for r in rounds) >= 23
    assert Timed.now < 0.01 * 200 / 2.2, "the first forty tokens are new, and then a few to be sure"


# For people


def known(*sources: str) -> Controller:
    """Plain decoding takes 10 ms, two rows 16; each source was right in four rounds of five."""
    controller = Controller()
    for _ in range(4):
        controller.observe(PLAIN, one_round("off", (), 0.0, 0.01))
    for i in range(50):
        for source in sources:
            controller.observe(Choice(source, 1), one_round(source, (int(i % 5 == 0),), 0.008, 0.016))
    return controller


@pytest.mark.parametrize(
    ("choice", "why"),
    [
        (Choice("lookup", 6, speedup=1.71), "lookup, k=6, 1.7x"),
        (Choice("draft", 1, speedup=0.8, trial="draft"), "draft, k=1, 0.8x, a trial"),
        (Choice("off", 0, trial="off"), "measuring plain decoding"),
        (PLAIN, "off: nothing to propose here"),
        (
            Choice("off", 0, speedup=0.7, rival="draft"),
            "off: draft costs 0.8 of a target step per token: it can't pay here",
        ),
    ],
    ids=str,
)
def test_it_says_why(choice: Choice, why: str) -> None:
    auto = Auto([], known("draft"))
    auto.choice = choice
    assert auto.why == why


def test_at_first_it_says_that_it_is_measuring() -> None:
    assert Auto([Lookup()], Controller()).why == "measuring plain decoding"


def test_where_nothing_was_drafted_for_long_free_members_are_asked_in_every_fourth_round() -> None:
    free = Saying("lookup", (5, 6), free=True)
    auto, controller = scripted(free)
    for _ in range(16 + 8):
        propose(auto)
        auto.observe(one_round("off", (), 0.0, 0.01))
    assert len(free.asked) == 16 + 2
    controller.plan = [Choice("lookup", 2)]
    while not propose(auto).tokens:
        auto.observe(one_round("off", (), 0.0, 0.01))
    auto.observe(one_round("lookup", (5, 6), 0.0, 0.01))
    asked = len(free.asked)
    for _ in range(4):
        propose(auto)
        auto.observe(one_round("off", (), 0.0, 0.01))
    assert len(free.asked) == asked + 4, "a draft brings them back to every round"


def test_members_with_trials_of_their_own_are_never_left_out() -> None:
    model = Saying("draft", (5,))
    auto, controller = scripted(Saying("lookup", free=True), model)
    for _ in range(30):
        propose(auto)
        auto.observe(one_round("off", (), 0.0, 0.01))
    assert len(controller.offered) == 30
