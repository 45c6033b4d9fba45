"""Ctrl+O: the sessions that are kept, found again by what was said in them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.widgets import Input, OptionList

from localspec.chat.keeper import Keeper
from localspec.chat.store import Store
from localspec.spec.types import Finish
from localspec.tui.screens.sessions import SessionsScreen
from tests.tui.driving import TINY, WIDE, Driver, open_chat
from tests.tui.scripted import ScriptedClient, finished, text

ANSWERS = ("A bridge carries a road.", "Bread needs yeast.", "A third answer.")


async def talk(it: Driver) -> None:
    """Two sessions of one turn each, the second one open."""
    await it.say("Tell me about bridges")
    await it.answered()
    await it.press("ctrl+n")
    await it.until(lambda: it.chat.session.path == ())
    await it.say("How is bread made?")
    await it.answered()


async def open_list(it: Driver) -> None:
    await it.press("ctrl+o")
    await it.until(lambda: isinstance(it.app.screen, SessionsScreen), "the list")
    await it.sees("Enter opens")


async def test_an_earlier_session_is_opened_and_goes_on() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        assert "bridge" not in it.text
        await open_list(it)
        await it.sees("Tell me about bridges", "How is bread made?", "2 messages", "open")
        await it.press("down", "enter")
        await it.until(lambda: it.chat.title == "Tell me about bridges")
        await it.sees("A bridge carries a road.")
        assert "Bread needs yeast." not in it.text
        await it.say("And then?")
        assert [m.text for m in it.client.asked[-1].messages] == ["Tell me about bridges", ANSWERS[0], "And then?"]


async def test_typing_finds_the_message_and_shows_its_line() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        await open_list(it)
        await it.press(*"carr")
        await it.sees("A bridge carries a road.", "Answer in Tell me about bridges")
        assert "bread" not in it.text
        await it.press("enter")
        await it.until(lambda: it.chat.title == "Tell me about bridges")


async def test_what_nobody_said_is_not_found() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        await open_list(it)
        await it.press(*"zebra")
        await it.sees("Nothing was said with these words.")
        await it.press("enter")
        assert isinstance(it.app.screen, SessionsScreen)


async def test_renaming_changes_the_title_everywhere() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        await open_list(it)
        await it.press("ctrl+r")
        await it.sees("New title")
        it.app.screen.query_one(Input).value = "Baking"
        await it.press("enter")
        await it.sees("Baking", "Enter opens")
        assert "How is bread made?" not in it.text
        await it.press("escape")
        await it.sees("Baking", "Bread needs yeast.")


async def test_leaving_a_new_title_keeps_the_old_one() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        await open_list(it)
        await it.press("ctrl+r")
        await it.sees("New title")
        it.app.screen.query_one(Input).value = "Baking"
        await it.press("escape")
        await it.sees("How is bread made?", "Enter opens")
        assert it.chat.title == "How is bread made?"


async def test_deleting_takes_two_presses_on_the_same_session() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        await open_list(it)
        await it.press("down", "delete")
        await it.sees("Del again deletes it")
        await it.press("up", "delete")
        assert len(it.chat.sessions()) == 2
        await it.press("down", "delete", "delete")
        await it.until(lambda: "bridges" not in it.text)
        assert [row.title for row in it.chat.sessions()] == ["How is bread made?"]


async def test_deleting_the_open_session_begins_a_new_one() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await talk(it)
        await open_list(it)
        await it.press("delete", "delete")
        await it.until(lambda: "bread" not in it.text)
        await it.press("escape")
        await it.until(lambda: "bread" not in it.text)
        assert it.chat.session.path == ()


async def test_a_running_answer_is_not_left_behind() -> None:
    async with open_chat(ScriptedClient(ANSWERS[0])) as it:
        await it.say("Tell me about bridges")
        await it.answered()
        await it.press("ctrl+n")
        await it.say("No answer comes")
        await open_list(it)
        await it.press("down", "enter")
        await it.until(lambda: any("still being written" in toast for toast in it.toasts))
        assert it.chat.title == "No answer comes"


@pytest.mark.parametrize("size", [TINY, WIDE, (200, 60)])
async def test_hostile_titles_stay_in_their_row(size: tuple[int, int]) -> None:
    nasty = "[red]x[/] \x1b[2J \N{RIGHT-TO-LEFT OVERRIDE}evil " + "漢字" * 30
    async with open_chat(ScriptedClient("[b]bold[/b]"), size=size) as it:
        await it.say(nasty)
        await it.answered()
        await open_list(it)
        await it.sees("[red]x[/] ␛[2J", "2 messages")
        options = it.app.screen.query_one(OptionList)
        assert options.virtual_size.width <= options.size.width
        await it.press(*"bold")
        await it.sees("[b]bold[/b]")


async def test_the_list_of_a_program_that_was_closed(tmp_path: Path) -> None:
    async with open_chat(ScriptedClient(*ANSWERS), keeper=Keeper(Store(tmp_path / "s.db"))) as it:
        await talk(it)
    async with open_chat(ScriptedClient(), keeper=Keeper(Store(tmp_path / "s.db"))) as it:
        await open_list(it)
        await it.sees("Tell me about bridges", "How is bread made?")
        await it.press("enter")
        await it.sees("Bread needs yeast.", "tokens")


async def test_an_empty_list_says_so() -> None:
    async with open_chat() as it:
        await it.press("ctrl+o")
        await it.sees("Nothing is kept yet.")
        await it.press("escape")
        await it.until(lambda: not isinstance(it.app.screen, SessionsScreen))


@pytest.mark.parametrize("clock", [lambda: 0.0])
async def test_a_clock_that_was_set_back_is_no_trouble(clock: Callable[[], float]) -> None:
    async with open_chat(ScriptedClient(*ANSWERS), keeper=Keeper(Store(), lambda: 1e9)) as it:
        await talk(it)
        it.app.push_screen(SessionsScreen(it.chat, clock))
        await it.sees("How is bread made?", "now")


async def test_a_full_context_asks_what_to_do_and_does_it() -> None:
    async with open_chat(ScriptedClient(*ANSWERS)) as it:
        await it.say("Tell me about bridges")
        await it.answered()
        await it.say("Go on")
        await it.answered()
        it.client.replies.clear()
        await it.say("And more?")
        await it.play(text(it.client.turn, "So"), finished(it.client.turn, Finish.CONTEXT))
        await it.sees("The context is full", "Leave out the oldest", "Begin a new session", "Stop here")
        await it.press("enter")
        await it.until(lambda: it.client.asked[-1].resume, "the answer going on")
        assert "Tell me about bridges" not in [m.text for m in it.client.asked[-1].messages]
        await it.play(text(it.client.turn, " it was."), finished(it.client.turn))
        await it.sees("So it was.", "The model no longer reads")


async def test_a_full_context_can_be_left_as_it_is() -> None:
    async with open_chat() as it:
        await it.say("And more?")
        await it.play(text(it.client.turn, "So"), finished(it.client.turn, Finish.CONTEXT))
        await it.sees("Begin a new session; this")
        assert "Leave out" not in it.text  # there is one question only
        await it.press("escape")
        await it.until(lambda: it.app.screen is it.screen)
        assert len(it.client.asked) == 1
