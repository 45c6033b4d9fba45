"""What else the model considered: when the chat asks for it, and what is said where an answer has none."""

from __future__ import annotations

from dataclasses import replace
from math import log

import pytest

from localspec.chat.answer import Answer
from localspec.chat.stored import StoredAnswer
from localspec.conversation.alternatives import COUNT, When, forget_oldest
from localspec.engine.messages import Emitted
from localspec.spec.types import LogProb
from localspec.tui.widgets.token_view import TokenView
from tests.tui.driving import Driver, open_chat
from tests.tui.scripted import READY, emitted, finished, rounds, text
from tests.tui.talk import OPTIONS, Talk


def considered(turn: int, words: str) -> Emitted:
    """Some words with alternatives: the token itself, one that is named, and one that isn't."""
    spoken = []
    for made, pieces in rounds(words, method="off"):
        top = ((made.emitted[0], log(0.7)), (77, log(0.2)), (88, log(0.01)))
        spoken.append((replace(made, logprobs=(LogProb(made.emitted[0], log(0.7), top),)), pieces))
    return replace(emitted(turn, spoken), names=((77, " other"),))


@pytest.mark.parametrize(
    ("when", "watched", "count"),
    [
        ("view", True, COUNT),
        ("view", False, None),
        ("always", False, COUNT),
        ("never", True, None),
        ("always", None, None),  # line by line, nobody can look at them
        ("view", None, None),
    ],
)
def test_when_they_are_asked_for(when: When, watched: bool | None, count: int | None) -> None:
    talk = Talk(options=replace(OPTIONS, alternatives=when))
    talk.chat.watched = watched
    talk.ask("Why?")
    assert talk.client.asked[-1].logprobs == count


def test_a_server_that_sends_none_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tui.scripted.READY", replace(READY, no_logprobs="this server sends none"))
    talk = Talk(options=replace(OPTIONS, alternatives="always"))
    talk.chat.watched = True
    talk.ask("Why?")
    assert talk.client.asked[-1].logprobs is None


def test_the_oldest_are_forgotten_and_what_is_not_in_memory_stays_there() -> None:
    def answer() -> Answer:
        made, event = Answer("off"), considered(1, "one two three")
        made.extend(event.rounds, event.pieces, event.names)
        return made

    answers = [answer(), answer(), answer()]
    unread = StoredAnswer("x", [(b"", b"")], method="off")
    forget_oldest([unread, *answers], most=6)
    assert [any(made.logprobs for made in each.rounds) for each in answers] == [False, True, True]
    assert [bool(each.names) for each in answers] == [False, True, True]
    assert unread.unread


async def asked(it: Driver, question: str) -> int:
    await it.say(question)
    return it.client.turn


async def drawn(it: Driver) -> None:
    """The tokens are there, and the first one is pointed at."""
    await it.until(lambda: it.screen.query(TokenView) and it.screen.query(TokenView).last().size.height, "tokens")
    await it.press("home")


async def test_f5_asks_for_them_and_the_inspector_names_them() -> None:
    async with open_chat() as it:
        await it.press("f5")
        turn = await asked(it, "Why?")
        assert it.client.asked[-1].logprobs == COUNT
        await it.play(considered(turn, "Because"), finished(turn))
        await it.press("shift+tab")
        await drawn(it)
        await it.sees('the model\'s own 0.7 · else " other" 0.2, #88 0.01')
        assert "alternatives:" not in it.text
        await it.press("f5")
        it.prompt.focus()
        turn = await asked(it, "Why not?")
        assert it.client.asked[-1].logprobs is None
        await it.play(finished(turn))


async def test_switched_on_in_mid_answer_it_says_what_brings_them() -> None:
    async with open_chat() as it:
        turn = await asked(it, "Why?")
        await it.play(text(turn, "Because "))
        await it.press("f5")
        await it.sees("alternatives: from the next answer on")
        await it.play(text(turn, "it is."), finished(turn))
        await it.sees("alternatives: written before this view was on;", "/regenerate has them")
        await it.press("ctrl+r")
        await it.until(lambda: len(it.client.asked) == 2, "the question again")
        assert it.client.asked[-1].logprobs == COUNT
        await it.play(considered(it.client.turn, "Thus"), finished(it.client.turn))
        await it.press("shift+tab")
        await drawn(it)
        await it.sees("the model's own 0.7")


@pytest.mark.parametrize(
    ("when", "said"),
    [("never", 'the configuration says "never"'), ("view", "not asked for; F5 asks from the next")],
)
async def test_what_is_said_about_one_answer_that_is_looked_at(when: When, said: str) -> None:
    async with open_chat(alternatives=when) as it:
        turn = await asked(it, "Why?")
        await it.play(text(turn, "Because."), finished(turn))
        await it.answered()
        it.screen.action_tokens(it.chat.answers[-1].id)
        await drawn(it)
        await it.sees(f"alternatives: {said}")


async def test_a_server_without_them_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tui.scripted.READY", replace(READY, no_logprobs="this server sends none"))
    async with open_chat() as it:
        turn = await asked(it, "Why?")
        await it.play(text(turn, "Because."), finished(turn))
        await it.press("f5")
        await drawn(it)
        await it.sees("alternatives: this server sends none")
