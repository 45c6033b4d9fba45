"""F6: the race on the screen, its showing at true speed, and the way back."""

from __future__ import annotations

import pytest

from localspec.conversation import Conversation
from localspec.engine.messages import Died, Notice, Stop
from localspec.spec.settings import Sampling
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.race import RaceScreen
from tests.racing import lane
from tests.tui.driving import NARROW, TINY, WIDE, Driver, open_chat
from tests.tui.scripted import finished, text

WORDS = "one two three four [five] six"
GREEDY = Sampling(temperature=0, seed=7)


async def race_screen(it: Driver) -> RaceScreen:
    await it.say("Count.")
    await it.play(text(it.client.turn, "Well."), finished(it.client.turn))
    await it.answered()
    await it.press("f6")
    await it.until(lambda: isinstance(it.app.screen, RaceScreen), "the race")
    assert isinstance(it.app.screen, RaceScreen)
    return it.app.screen


async def run_both(it: Driver, screen: RaceScreen, second: str = WORDS) -> None:
    it.client.play(*lane(-1, WORDS))
    await it.until(lambda: screen.race.lane == 1, "the second run")
    it.client.play(*lane(-2, second, 3))
    await it.until(lambda: screen.race.over, "the end of the race")


def said(chat: Conversation) -> list[str]:
    return [message.text for message in chat.session.messages()] + [note.text for note in chat.notes]


@pytest.mark.parametrize("size", [WIDE, NARROW, TINY, (200, 60)])
async def test_two_columns_then_the_result(size: tuple[int, int]) -> None:
    async with open_chat(size=size, sampling=GREEDY) as it:
        screen = await race_screen(it)
        before = said(it.chat)
        await it.sees("1 of 2: plain is written", "lookup k=8")
        await run_both(it, screen)
        await it.press("enter")
        await it.sees("lookup 0.5 s against plain 3.0 s: 6.00x", "same 6 tokens")
        assert it.text.count("one two three") == 2
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen), "the chat")
        assert said(it.chat) == before


async def test_it_is_shown_at_the_speed_it_had() -> None:
    now = 100.0
    async with open_chat(sampling=GREEDY) as it:
        screen = await race_screen(it)
        screen._clock = lambda: now
        await run_both(it, screen)
        await it.until(lambda: screen._since == 100.0, "the showing")
        now = 100.6
        await it.sees("   1 tokens     0.6 s", "   6 tokens     0.5 s")
        assert "6.00x" not in it.text
        now = 102.1
        await it.sees("   4 tokens     2.1 s")
        now = 103.1
        await it.sees("6.00x")
        await it.press("space")
        await it.sees("   0 tokens     0.0 s")


async def test_what_was_written_is_seen_while_it_is_written() -> None:
    async with open_chat(sampling=GREEDY) as it:
        await race_screen(it)
        reading, some, _ = lane(-1, "alpha beta")
        it.client.play(reading, some)
        await it.sees("alpha beta", "   2 tokens")
        await it.press("escape")


async def test_esc_stops_the_engine_and_the_next_question_is_asked() -> None:
    async with open_chat(sampling=GREEDY) as it:
        await race_screen(it)
        it.client.play(*lane(-1, WORDS)[:2])
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen), "the chat")
        assert it.client.commands[-1] == Stop()
        await it.say("Again.")
        assert it.client.asked[-1].turn > 0


async def test_a_death_in_a_race_is_told_there_and_in_the_chat() -> None:
    async with open_chat(sampling=GREEDY) as it:
        await race_screen(it)
        it.client.play(Died("killed by signal 9 (SIGKILL)"))
        await it.sees("The engine stopped.")
        await it.press("escape")
        await it.sees("The engine stopped: killed by signal 9")


async def test_notices_of_a_race_are_told_in_it() -> None:
    async with open_chat(sampling=GREEDY) as it:
        screen = await race_screen(it)
        it.client.play(Notice("The drafter [x] was left out.", turn=-1))
        await run_both(it, screen)
        await it.press("enter")
        await it.sees("The drafter [x] was left out.")


async def test_a_refusal_is_one_sentence_and_the_chat_stays() -> None:
    async with open_chat() as it:
        await it.press("f6")
        await it.until(lambda: it.toasts, "the refusal")
        assert it.toasts == [
            "A race takes your last message as its prompt, and there is none. Ask something first."
        ]
        assert isinstance(it.app.screen, ChatScreen)
