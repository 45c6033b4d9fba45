"""How writing looks: the list of commands, thoughts, the form of the settings. In every theme and without colours."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import pytest
from textual.pilot import Pilot

from localspec.tui.app import ChatApp
from tests.tui.driving import Driver
from tests.tui.scripted import ScriptedClient, finished, text
from tests.tui.test_snapshots import LARGE, SMALL, Snap, app_of, talk

Act: TypeAlias = Callable[[Driver], Awaitable[None]]
THOUGHT = "<think>\nThe user asks why.\nA [b]short[/b] answer will do.\n</think>\n\nBecause **it is**.\n"
LOOKS = pytest.mark.parametrize(
    ("size", "theme"),
    [(SMALL, None), (LARGE, "localspec-light"), (LARGE, "localspec-contrast"), (LARGE, "no colours")],
    ids=["small", "light", "contrast", "no_color"],
)


def look(snap: Snap, act: Act, size: tuple[int, int], theme: str | None, patch: pytest.MonkeyPatch) -> bool:
    """`act` ends with what is to be seen, also on a screen over the chat."""
    if theme == "no colours":
        patch.setenv("NO_COLOR", "1")
        theme = None

    async def run(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, ChatApp)
        it = Driver(pilot, pilot.app, pilot.app.client)
        await it.until(lambda: it.chat.methods, "the model")
        await act(it)
        await pilot.pause()

    return snap(app_of(ScriptedClient(), theme=theme), terminal_size=size, run_before=run)


@LOOKS
def test_the_list_of_commands(
    snap_compare: Snap, size: tuple[int, int], theme: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def type_one(it: Driver) -> None:
        await talk(it)
        await it.press("slash", "s", "e", "down")
        await it.sees("/sessions")

    assert look(snap_compare, type_one, size, theme, monkeypatch)


@LOOKS
def test_thoughts(
    snap_compare: Snap, size: tuple[int, int], theme: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def think(it: Driver) -> None:
        await it.say("Why?")
        await it.play(text(it.client.turn, THOUGHT), finished(it.client.turn))
        await it.answered()
        await it.press("alt+t")
        await it.say("And?")
        await it.play(text(it.client.turn, THOUGHT[:40]))
        await it.sees("thinking …")

    assert look(snap_compare, think, size, theme, monkeypatch)


@LOOKS
def test_the_sampling_form(
    snap_compare: Snap, size: tuple[int, int], theme: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def open_form(it: Driver) -> None:
        await it.sees("context 8,192")
        await it.press("alt+s")
        await it.until(lambda: it.app.focused and it.app.focused.id == "temperature")
        await it.press("down", "down", "9")
        await it.sees("at most 1")

    assert look(snap_compare, open_form, size, theme, monkeypatch)
