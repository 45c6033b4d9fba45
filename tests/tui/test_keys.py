"""Keys of the user's own, and the help that says which keys are in effect."""

from __future__ import annotations

import pytest

from localspec.commands import COMMANDS
from localspec.engine.messages import Stop
from localspec.errors import UnknownName
from localspec.tui.app import ChatApp
from localspec.tui.screens.help import HelpScreen
from tests.tui.driving import LOAD, Driver, open_chat
from tests.tui.scripted import ScriptedClient
from tests.tui.talk import OPTIONS


def helped(it: Driver) -> str:
    assert isinstance(it.app.screen, HelpScreen)
    return "\n".join(line.plain for line in it.app.screen._lines(80))


async def test_a_key_of_the_users_own_works_and_the_old_one_does_not() -> None:
    async with open_chat(keys={"chat.stop": "ctrl+x,f11"}) as it:
        await it.say("Why?")
        await it.press("escape")
        assert not it.chat.stopping
        await it.press("ctrl+x")  # the editor would cut
        assert Stop() in it.client.commands


async def test_enter_can_be_a_new_line() -> None:
    async with open_chat(keys={"prompt.send": "f12", "prompt.newline": "enter"}) as it:
        await it.press("a", "enter", "b")
        assert it.prompt.text == "a\nb"
        await it.press("f12")
        await it.until(lambda: it.client.asked)


async def test_help_shows_the_keys_in_effect_and_every_command() -> None:
    async with open_chat(size=(100, 50), keys={"chat.stop": "ctrl+x", "app.help": "f11"}) as it:
        await it.press("f11")
        text = helped(it)
        assert "Ctrl+X                Stop the answer" in text
        assert [command.name for command in COMMANDS if f"/{command.name}" not in text] == []


async def test_help_is_about_the_widget_that_has_the_keys() -> None:
    async with open_chat(size=(100, 50)) as it:
        await it.press("f1")
        assert helped(it).startswith("Enter sends the message")
        await it.press("escape")
        it.app.set_focus(None)
        await it.press("f1")
        assert "Enter sends" not in helped(it)


async def test_the_lines_around_the_chat_name_the_users_own_keys() -> None:
    keys = {"chat.method": "f12,f3", "app.help": "ctrl+underscore", "chat.panel": "alt+p"}
    async with open_chat(size=(90, 24), keys=keys) as it:
        await it.sees("F12 method", "Ctrl+/ help", "Alt+P more", "F4 length")
        assert "F3 method" not in it.text


def test_a_theme_that_is_not_there_is_said_before_the_screen_opens() -> None:
    with pytest.raises(UnknownName, match="localspec-drak"):
        ChatApp(ScriptedClient(), LOAD, OPTIONS, theme="localspec-drak")
