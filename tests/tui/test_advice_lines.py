"""The panel says whether drafting pays here: a sentence and a curve for each drafter that was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.spec.advice import Advice
from localspec.tui.charts import gains
from localspec.tui.widgets.advice_lines import advice_lines, why_lines
from tests.tui.driving import open_chat
from tests.tui.scripted import emitted, finished, rounds, text
from tests.tui.talk import Talk

PAYS = Advice("lookup", (1.1, 1.3, 1.42, 1.2, 0.9, 0.8), 3, 0.3, "lookup gives 1.4x here at k=3")
LOSES = Advice("draft", (0.9, 0.7), 0, 0.6, "draft costs 0.6 of a target step per token: it can't pay here")


def test_a_sentence_and_a_curve_for_each_drafter(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "So."), replace(finished(talk.client.turn), advice=(PAYS, LOSES)))
    head, *lines = (line.plain for line in advice_lines(talk.chat, 40))
    assert head.startswith("DOES IT PAY")
    assert lines == [
        "lookup gives 1.4x here at k=3",
        "1 ▂▆█▄·· 6   1.42x at 3",
        "draft costs 0.6 of a target step per",
        "token: it can't pay here",
        "1 ·· 2   0.90x at 1",
    ]


def test_an_answer_that_measured_nothing_leaves_the_last_word(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "So."), replace(finished(talk.client.turn), advice=(PAYS,)))
    talk.ask("And?")
    assert "lookup gives" in advice_lines(talk.chat, 40)[1].plain


def test_nothing_measured_is_nothing_said(talk: Talk) -> None:
    talk.ask("Why?")
    assert advice_lines(talk.chat, 40) == []
    assert why_lines(talk.chat, 40) == []


async def test_it_stands_in_the_panel_with_the_reason_of_the_choice() -> None:
    async with open_chat(size=(120, 60)) as it:
        await it.say("Why?")
        told = emitted(it.client.turn, rounds("A long enough answer to have figures."))
        await it.play(replace(told, why="lookup, k=6, 1.4x"))
        await it.sees("lookup: lookup, k=6, 1.4x")
        await it.play(replace(finished(it.client.turn), advice=(PAYS,)))
        await it.sees("DOES IT PAY", "lookup gives 1.4x here at k=3", "1.42x at 3")


@pytest.mark.parametrize(
    ("speedups", "drawn"), [((), ""), ((0.5, 1.0), "··"), ((1.5, 2.0), "▅█"), ((3.0,), "█"), ((0.9, 1.0001), "·█")]
)
def test_gains_over_plain_decoding(speedups: tuple[float, ...], drawn: str) -> None:
    assert gains(speedups) == drawn
