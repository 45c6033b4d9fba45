"""How tokens and a race look, cell by cell, without the chat around them.

After a wanted change: pytest tests/tui/test_view_snapshots.py --snapshot-update.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.pilot import Pilot

import localspec.tui
from localspec.chat.answer import Answer
from localspec.chat.session import Asked, Session
from localspec.engine.messages import Generate
from localspec.race import Lane, Race
from localspec.spec.settings import Sampling
from localspec.tui.screens.race import RaceScreen
from localspec.tui.theme import THEMES
from localspec.tui.widgets.inspector import Inspector
from localspec.tui.widgets.token_view import TokenView
from tests.racing import lane
from tests.tui.scripted import ScriptedClient, rounds
from tests.tui.test_snapshots import ANSWER

SMALL, LARGE = (80, 24), (140, 45)
WIDGETS = Path(localspec.tui.__file__).parent / "widgets"
Snap = Callable[..., bool]


def answer() -> Answer:
    """Plain decoding, then two drafters with corrections, bonuses and rejected tails."""
    made = Answer("off")
    spoken = rounds(ANSWER[:60], method="off") + rounds(ANSWER[60:190], method="lookup", seed=3)
    spoken += rounds(ANSWER[190:] + "漢字 [/b] \x1b[2J end.", method="draft", seed=5)
    for round, pieces in spoken:
        ghost = " a wrong\ntail" if round.accepted < len(round.drafted) else ""
        p, q = (0.82,) * round.tested, (1.0,) * round.tested
        made.extend((replace(round, p=p, q=q),), (*pieces[:-1], replace(pieces[-1], ghost=ghost)))
    return made


class Alone(App[None]):
    CSS_PATH: ClassVar = [WIDGETS / "token_view.tcss", WIDGETS / "inspector.tcss"]

    def __init__(self, theme: str = "localspec-dark") -> None:
        super().__init__()
        for each in THEMES:
            self.register_theme(each)
        self.theme = theme


class Tokens(Alone):
    def compose(self) -> ComposeResult:
        session = Session()
        node = session.answer(session.say("Why?"), answer(), Asked(Sampling(), None))
        with VerticalScroll(can_focus=False):
            yield TokenView(node)
        yield Inspector()

    def on_token_view_pointed(self, event: TokenView.Pointed) -> None:
        self.query_one(Inspector).show(event.view)


async def point(pilot: Pilot[None]) -> None:
    view = pilot.app.query_one(TokenView)
    view.focus()
    await pilot.pause()
    view.point(24)
    await pilot.pause()


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_tokens(snap_compare: Snap, size: tuple[int, int]) -> None:
    assert snap_compare(Tokens(), terminal_size=size, run_before=point)


@pytest.mark.parametrize("theme", ["localspec-light", "localspec-contrast"])
def test_tokens_in_other_themes(snap_compare: Snap, theme: str) -> None:
    assert snap_compare(Tokens(theme), terminal_size=SMALL, run_before=point)


def test_tokens_without_colours(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(Tokens(), terminal_size=SMALL, run_before=point)


class Raced(Alone):
    """A race that is over, at a moment of its showing."""

    def __init__(self, second: str, seconds: float) -> None:
        super().__init__()
        self._second, self._seconds = second, seconds

    def on_mount(self) -> None:
        asked = Generate(-1, sampling=Sampling(temperature=0, seed=7), draft_tokens=6, max_tokens=256)
        race = Race(ScriptedClient(), asked, (Lane("off", Answer("off")), Lane("lookup", Answer("lookup"))))
        screen = RaceScreen(race, clock=lambda: 0.0)
        self.push_screen(screen)
        self.call_after_refresh(self._run, screen)

    def _run(self, screen: RaceScreen) -> None:
        for event in (*lane(-1, ANSWER), *lane(-2, self._second, 3), *lane(-3, "x")):
            screen.race.fold(event)
        screen._since = -self._seconds
        screen.follow()


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_a_race_that_is_shown(snap_compare: Snap, size: tuple[int, int]) -> None:
    async def wait(pilot: Pilot[None]) -> None:
        await pilot.pause()

    assert snap_compare(Raced(ANSWER, 2.0), terminal_size=size, run_before=wait)


def test_a_race_that_is_over(snap_compare: Snap) -> None:
    async def wait(pilot: Pilot[None]) -> None:
        await pilot.pause()

    assert snap_compare(
        Raced(ANSWER.replace("keys may", "of them may"), 99.0), terminal_size=SMALL, run_before=wait
    )
