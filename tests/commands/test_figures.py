"""The figures as lines: those of the panel, each with its counts."""

from __future__ import annotations

from dataclasses import replace

from localspec.commands.figures import figures
from localspec.spec.advice import Advice
from tests.tui.scripted import emitted, finished, rounds
from tests.tui.talk import Talk

WORDS = "some words that are long enough to be spoken in quite a few rounds of decoding " * 4


def told(*methods: str) -> tuple[Talk, list[str]]:
    talk = Talk()
    talk.chat.submit("Why?")
    turn = talk.client.turn
    for method in methods:
        talk.hear(emitted(turn, rounds(WORDS, method=method)))
    talk.hear(replace(finished(turn), advice=(Advice("lookup", sentence="lookup gives 1.6x here at k=4"),)))
    return talk, figures(talk.chat)


def test_before_the_first_answer() -> None:
    assert figures(Talk().chat) == ["No answer yet."]


def test_an_answer_with_drafts() -> None:
    talk, lines = told("lookup")
    assert talk.chat.shown
    stats = talk.chat.shown.stats
    assert [line.partition(":")[0] for line in lines[1:5]] == ["speed", "acceptance", "by position", "round"]
    assert f"{stats.accepted} of {stats.tested} tested tokens; {stats.drafted} were drafted" in lines[2]
    first = stats.per_position[0]
    assert lines[3].startswith(f"by position: {first.accepted / first.reached * 100:.0f} % of {first.reached}, ")
    assert f"{stats.rounds} of them: verify " in lines[4]
    used = 24 + len(talk.chat.shown.pieces)
    assert lines[-2:] == [f"context: {used} of 8,192 tokens", "lookup gives 1.6x here at k=4"]


def test_plain_decoding_has_no_figures_of_drafts() -> None:
    _, lines = told("off")
    assert "speed: plain decoding" in lines
    assert not any(line.startswith(("acceptance", "by position", "segment")) for line in lines)


def test_each_segment_has_a_line() -> None:
    _, lines = told("off", "lookup")
    off, lookup = (line for line in lines if line.startswith("segment"))
    assert off.startswith("segment 1, off: ") and "accepted" not in off
    assert lookup.startswith("segment 2, lookup: ") and "accepted" in lookup and "a round" in lookup
