"""What is said about a token is what its round holds, and never more than the rule allows to say."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from localspec.chat.answer import Answer
from localspec.chat.inspection import Place, inspected, places, quoted
from localspec.chat.message import Piece
from localspec.spec.types import LogProb, Round

ROUND = Round(
    "lookup", "lookup", (5, 6, 7), 2, (5, 6, 9), (0.82, 1.0, 0.031), (1.0,) * 3, 8, 0.001, 0.03, 0.0, 0.031
)
PLAIN = replace(ROUND, source="off", drafted=(), accepted=0, emitted=(5,), p=(), q=())


def answer(*rounds: Round, ghost: str = " ghost") -> Answer:
    made = Answer("lookup")
    for each in rounds:
        pieces = [Piece(t, f" t{t}", who) for t, who in zip(each.emitted, each.provenance, strict=True)]
        if each.drafted[each.accepted :]:
            pieces[-1] = replace(pieces[-1], ghost=ghost)
        made.extend((each,), tuple(pieces))
    return made


def about(round: Round, position: int, verifier: str = "block") -> str:
    return inspected(answer(round), position, Place(0, position), verifier)[1]


def test_an_accepted_token() -> None:
    assert inspected(answer(PLAIN, ROUND), 1, Place(1, 0)) == (
        '" t5"',
        "round 2 · lookup · position 1 of 3 · p 0.82 · q 1 · accepted with probability 0.82 · drafted 3, accepted 2 · "
        "round 31 ms",
    )


def test_a_correction_tells_what_was_rejected_and_how_likely_it_was() -> None:
    assert about(ROUND, 2) == (
        'round 1 · correction: the model\'s own at position 3 of 3, instead of " ghost" by lookup · '
        "p 0.031 · q 1 · accepted with probability 0.031 · drafted 3, accepted 2 · round 31 ms"
    )


def test_a_bonus_and_a_plain_token() -> None:
    assert "bonus" in about(replace(ROUND, accepted=3, emitted=(5, 6, 7, 9)), 3)
    assert about(PLAIN, 0) == "round 1 · plain: nothing was drafted · round 31 ms"


def test_what_a_block_was_accepted_with_is_a_joint_ratio() -> None:
    drawn = replace(ROUND, p=(0.4, 0.9, 0.1), q=(0.8, 0.45, 0.5))
    assert "joint ratio 0.5 ·" in about(drawn, 0)
    assert "joint ratio 1 ·" in about(drawn, 1)
    assert "accepted with probability 0.5 ·" in about(drawn, 0, "token")
    assert "accepted with probability 1 ·" in about(drawn, 1, "token")


def test_a_lossy_rule_has_no_such_probability() -> None:
    said = about(ROUND, 0, "typical=0.3")
    assert "p 0.82 · q 1 · drafted" in said


def test_figures_that_are_missing_are_not_made_up() -> None:
    assert "position 1 of 3 · drafted 3" in about(replace(ROUND, p=(), q=()), 0)


def test_alternatives_by_their_text_where_it_is_known() -> None:
    known = (LogProb(5, log(0.7), ((5, log(0.7)), (9, log(0.2)), (77, log(0.00001)))), *(LogProb(6, 0.0),) * 2)
    assert about(replace(ROUND, logprobs=known), 0).endswith('the model\'s own 0.7 · else " t9" 0.2, #77 <0.0001')


def test_places_go_on_where_they_ended() -> None:
    assert list(places([PLAIN, ROUND])) == [Place(0, 0), Place(1, 0), Place(1, 1), Place(1, 2)]
    assert list(places([PLAIN, ROUND], 1)) == [Place(1, 0), Place(1, 1), Place(1, 2)]


@pytest.mark.parametrize(
    ("text", "shown"),
    [(" a", '" a"'), ("\n\t", '"↵⇥"'), ("\x1b[", '"␛["'), ("x" * 99, f'"{"x" * 31}…"'), ("[b]", '"[b]"')],
)
def test_quoted(text: str, shown: str) -> None:
    assert quoted(text) == shown
