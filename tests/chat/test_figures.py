"""The same names and the same sums wherever figures are shown."""

from __future__ import annotations

import pytest

from localspec.chat.answer import Answer
from localspec.chat.figures import footer, speculation, timings, tokens_per_second
from localspec.spec.types import Finish
from tests.chat.test_export import ROUNDS, answered


def test_speed_is_tokens_over_the_decode_phase() -> None:
    assert tokens_per_second(answered(decode_s=0.5)) == 28


def test_speed_is_known_while_the_answer_grows() -> None:
    assert tokens_per_second(answered(decode_s=None)) == pytest.approx(14 / (8 * 0.025))


def test_an_empty_answer_has_no_figures_and_no_division_by_zero() -> None:
    empty = Answer("lookup")
    assert timings(empty)["tokens_per_second"] is None
    assert timings(empty)["inter_token_latency_s"] == {"p50": None, "p95": None}
    assert speculation(empty, "lookup", "block")["acceptance_rate"] is None
    assert footer(empty) == "0 tokens · lookup"


def test_timings_have_the_names_of_the_contract() -> None:
    assert set(timings(answered())) == {
        "ttft_s",
        "prefill_s",
        "decode_s",
        "total_s",
        "tokens_per_second",
        "inter_token_latency_s",
    }


def test_the_method_that_was_asked_for_and_the_ones_that_drafted_are_told_apart() -> None:
    figures = speculation(answered(), "auto", "block")
    assert figures["method"] == "auto"
    assert figures["verifier"] == "block"
    assert set(figures["by_drafter"]) == {"lookup"}
    assert figures["by_drafter"]["lookup"]["rounds"] == 3  # those in which something was drafted


@pytest.mark.parametrize("rounds", [ROUNDS, ROUNDS[:4], ROUNDS[4:]])
def test_the_sum_holds_in_every_table(rounds: list) -> None:
    figures = speculation(answered(rounds), "lookup", "block")
    for table in (figures, *figures["by_drafter"].values()):
        assert table["emitted"] == table["accepted"] + table["rounds"] - table["cut"]


def test_the_line_under_an_answer() -> None:
    assert footer(answered()) == "14 tokens · 56 tok/s · 88 % accepted · 1.8 a round · off → lookup"


@pytest.mark.parametrize(
    ("finish", "words"),
    [(Finish.CANCELLED, "stopped"), (Finish.LENGTH, "length limit reached"), (Finish.CONTEXT, "context full")],
)
def test_an_unusual_ending_is_said_first(finish: Finish, words: str) -> None:
    assert footer(answered(finish=finish)).startswith(f"{words} · ")


def test_plain_decoding_boasts_of_no_acceptance() -> None:
    assert footer(answered(ROUNDS[:1], decode_s=0.25)) == "1 token · 4.0 tok/s · off"
