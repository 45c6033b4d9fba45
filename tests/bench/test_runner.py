"""Who is asked what, and when; what is kept when things go wrong; and that a slower variant is found to be slower."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from localspec.bench.figures import by_category
from localspec.bench.runner import Gone, Opening, Plan, Room, measure, schedule
from localspec.bench.suite import Prompt
from localspec.errors import LocalspecError, PromptTooLong
from tests.bench.scripted import Clock, Eye, Slow, opening, plan, prompts, said


def test_variants_take_turns_on_each_prompt() -> None:
    clock, log = Clock(), list[str]()
    a = Slow("a", clock, trouble=lambda n: log.append("a"))
    b = Slow("b", clock, trouble=lambda n: log.append("b"))
    outcome = measure([opening(a, b)], plan(3, warmup=0, repeats=2), Eye())
    assert "".join(log) == "ababab" * 2
    assert [sample.variant for sample in outcome.samples] == ["a", "b"] * 6
    assert outcome.complete


def test_warm_up_answers_are_dropped() -> None:
    a, b = Slow("a", Clock()), Slow("b", Clock())
    outcome = measure([opening(a, b)], plan(3, warmup=2), Eye())
    assert len(a.asked) == len(b.asked) == 5
    assert len(outcome.samples) == 6


def test_all_are_asked_the_same_with_the_same_seeds() -> None:
    a, b = Slow("a", Clock()), Slow("b", Clock())
    measure([opening(a, b)], plan(4, repeats=2, warmup=0, seed=7), Eye())
    assert a.asked == b.asked
    seeds = [seed for _, seed in a.asked]
    assert seeds[0] == 7 and len(set(seeds)) == 8  # another one for each prompt and repeat


def test_the_second_turn_follows_on_the_first_answer_of_the_first_one() -> None:
    a = Slow("a", Clock(), text=lambda asked: f"a says {asked}")
    b = Slow("b", Clock(), text=lambda asked: f"b says {asked}")
    measure([opening(a, b)], Plan((Prompt("p", "chat", ("one", "two")),), warmup=0, repeats=2), Eye())
    for contestant in (a, b):
        second = contestant.asked[1][0]
        assert [(m.role, m.text) for m in second] == [("user", "one"), ("assistant", "a says one"), ("user", "two")]


def test_several_loads_take_turns_as_well() -> None:
    assert schedule(1, 3) == [(0, range(1, 4))]
    assert schedule(2, 2) == [(0, range(1, 2)), (1, range(1, 2)), (0, range(2, 3)), (1, range(2, 3))]
    clock, log = Clock(), list[str]()
    a = Slow("a", clock, trouble=lambda n: log.append("a"))
    b = Slow("b", clock, trouble=lambda n: log.append("b"))
    outcome = measure([opening(a), opening(b, label="other")], plan(2, repeats=2, warmup=1), Eye())
    assert "".join(log) == "aaabbb" * 2
    assert [sample.repeat for sample in outcome.samples] == [1, 1, 1, 1, 2, 2, 2, 2]


@pytest.mark.parametrize(("factor", "noise"), [(1.25, 0.05), (0.8, 0.05), (3.0, 0.3)])
def test_a_slower_variant_is_found_with_the_right_sign_and_size(factor: float, noise: float) -> None:
    """The machine gets slower by half while it is measured, for all of them; only what differs must show."""
    clock = Clock()
    base, slow = Slow("off", clock, 0.01, noise=noise), Slow("slow", clock, 0.01 * factor, noise=noise)

    def tire(count: int) -> None:
        base.step *= 1.02
        slow.step *= 1.02

    base.trouble = tire
    outcome = measure([opening(base, slow)], plan(24), Eye())
    (found,) = [row for row in by_category(outcome.samples, {"slow": "off"}) if row.category == "all"]
    ratio = found.speedup
    assert ratio is not None and ratio.low is not None and ratio.high is not None and ratio.certain
    assert ratio.low <= 1 / factor <= ratio.high
    assert ratio.value == pytest.approx(1 / factor, rel=0.02 + noise)


def test_two_equal_variants_are_not_told_apart() -> None:
    clock = Clock()
    a, b = Slow("off", clock, noise=0.1), Slow("same", clock, noise=0.1)
    outcome = measure([opening(a, b)], plan(24), Eye())
    (row,) = [row for row in by_category(outcome.samples, {"same": "off"}) if row.category == "all"]
    assert row.speedup is not None and not row.speedup.certain


def test_greedy_texts_are_compared_and_a_difference_is_explained() -> None:
    a = Slow("off", Clock())
    b = Slow("lookup", Clock(), text=lambda asked: "another" if asked == "hello 2" else asked.upper())
    outcome = measure([opening(a, b)], plan(4), Eye())
    found = outcome.identity["lookup"]
    assert (found.compared, found.equal) == (4, 3)
    ((task, parting),) = found.partings
    assert (task.prompt, parting.verdict) == ("p2", "near tie")
    assert "off" not in outcome.identity


def too_long(messages: int) -> None:
    raise PromptTooLong(900, 512)


def test_a_prompt_longer_than_the_context_is_skipped_and_said() -> None:
    clock = Clock()
    a, b = Slow("off", clock), Slow("lookup", clock)

    def refuse(count: int) -> None:
        if a.asked[-1][0][-1].text == "hello 1":
            raise PromptTooLong(900, 512)

    a.trouble = refuse
    eye = Eye()
    outcome = measure([opening(a, b)], plan(3, warmup=2), eye)
    assert outcome.complete
    assert {sample.task.prompt for sample in outcome.samples} == {"p0", "p2"}
    assert outcome.skipped == {"p1": "The prompt has 900 tokens, but the context holds 512."}
    assert eye.told == ["p1 is skipped. The prompt has 900 tokens, but the context holds 512."]
    assert eye.seen[-1] == (10, 10)


def test_later_turns_of_a_skipped_prompt_are_not_asked() -> None:
    a = Slow("off", Clock(), trouble=too_long)
    outcome = measure([opening(a)], Plan(prompts(1, "one", "two"), warmup=0), Eye())
    assert len(a.asked) == 1
    assert (outcome.samples, list(outcome.skipped), outcome.complete) == ([], ["p0"], True)


def test_a_contestant_that_dies_is_left_out_and_what_it_did_is_kept() -> None:
    def die(count: int) -> None:
        if count > 3:
            raise Gone("It no longer answers (refused).")

    a, b = Slow("off", Clock()), Slow("server", Clock(), trouble=die)
    eye = Eye()
    outcome = measure([opening(a, b)], plan(6, warmup=1), eye)
    assert outcome.complete
    assert sum(sample.variant == "off" for sample in outcome.samples) == 6
    assert sum(sample.variant == "server" for sample in outcome.samples) == 2
    assert outcome.problems == {"server": "It no longer answers (refused)."}
    assert len(b.asked) == 4
    assert any(text.startswith("server is left out") for text in eye.told)
    assert eye.seen[-1] == (14, 14)


def test_single_errors_are_said_and_three_in_a_row_are_enough() -> None:
    def fail(count: int) -> None:
        if count in (2, 4, 5, 6):
            raise LocalspecError(f"HTTP 500, number {count}")

    b = Slow("server", Clock(), trouble=fail)
    outcome = measure([opening(Slow("off", Clock()), b)], plan(9, warmup=0), Eye())
    assert len(b.asked) == 6
    assert [s.task.prompt for s in outcome.samples if s.variant == "server"] == ["p0", "p2"]
    assert outcome.problems == {"server": "HTTP 500, number 6"}


def test_what_was_done_is_reported_when_it_is_stopped() -> None:
    a, b = Slow("off", Clock()), Slow("lookup", Clock())
    outcome = measure([opening(a, b)], plan(6, warmup=1), Eye(until=lambda done: done >= 7))
    assert not outcome.complete
    assert [(s.task.prompt, s.variant) for s in outcome.samples] == [
        *(("p0", "off"), ("p0", "lookup"), ("p1", "off"), ("p1", "lookup")),
    ]


def test_an_answer_that_was_cut_short_by_a_stop_is_no_sample() -> None:
    a = Slow("off", Clock())
    a.ask = lambda messages, seed: said("half", finish="cancelled")  # type: ignore[method-assign]
    outcome = measure([opening(a)], plan(6), Eye())
    assert (outcome.samples, outcome.complete) == ([], False)


def test_a_second_ctrl_c_keeps_what_was_done() -> None:
    def interrupt(count: int) -> None:
        if count == 4:
            raise KeyboardInterrupt

    outcome = measure([opening(Slow("off", Clock(), trouble=interrupt))], plan(6, warmup=1), Eye())
    assert (len(outcome.samples), outcome.complete) == (2, False)


def test_a_load_that_fails_is_left_out_and_the_others_go_on() -> None:
    @contextmanager
    def broken() -> Iterator[Room]:
        raise LocalspecError("There is not enough memory.")
        yield

    a = Slow("off", Clock())
    outcome = measure([opening(a), Opening("fa on f32", 2, broken)], plan(3, repeats=2, warmup=0), eye := Eye())
    assert outcome.complete
    assert len(outcome.samples) == 6
    assert outcome.problems == {"fa on f32": "There is not enough memory."}
    assert eye.seen[-1][1] == 18


def test_an_answer_without_a_token_is_no_sample() -> None:
    a = Slow("off", Clock())
    a.ask = lambda messages, seed: said("", tokens=0, finish="stop")  # type: ignore[method-assign]
    assert measure([opening(a)], plan(2, warmup=0), Eye()).samples == []
