"""How the chat looks, cell by cell. After a wanted change: pytest tests/tui/test_snapshots.py --snapshot-update."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from localspec.conversation import Options
from localspec.engine.messages import Died, Prefill
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp
from tests.tui.driving import LOAD, Driver
from tests.tui.scripted import ScriptedClient, emitted, finished, rounds, text

SMALL, LARGE = (80, 24), (140, 45)
ANSWER = """A **hash table** stores pairs of keys and values.

```python
def put(table, key, value):
    table[hash(key) % len(table)].append((key, value))
```

- Average cost of a lookup is *constant*.
- Two keys may share a bucket.
"""
OPTIONS = Options("SmolLM2 135M", "lookup", 8, Sampling(temperature=0.7))
Snap = Callable[..., bool]


def app_of(client: ScriptedClient, theme: str | None = None) -> ChatApp:
    return ChatApp(client, LOAD, OPTIONS, theme=theme)


async def talk(it: Driver) -> None:
    """One answer that is complete, with a switch in it, and one that is being written."""
    await it.say("Explain what a hash table is.")
    await it.play(Prefill(it.client.turn, 24, 24, 0))
    await it.play(emitted(it.client.turn, rounds(ANSWER[:120], method="off")))
    await it.play(emitted(it.client.turn, rounds(ANSWER[120:], method="lookup")), finished(it.client.turn))
    await it.answered()
    await it.say("And in [Rust]?")
    await it.play(Prefill(it.client.turn, 210, 210, 180))
    await it.play(emitted(it.client.turn, rounds("Use the map of the standard library: ", seed=4)))
    await it.say("Thanks.")
    await it.play()


def driven(act: Callable[[Driver], object]) -> Callable[[Pilot], object]:
    async def run(pilot: Pilot) -> None:
        app = pilot.app
        assert isinstance(app, ChatApp)
        it = Driver(pilot, app, app.client)
        await it.until(lambda: it.chat.methods, "the model")
        await act(it)
        await it.until(lambda: not it.screen.stale)
        await pilot.pause()

    return run


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
def test_talking(snap_compare: Snap, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(ScriptedClient()), terminal_size=size, run_before=driven(talk))


def test_talking_in_the_light(snap_compare: Snap) -> None:
    app = app_of(ScriptedClient(), theme="localspec-light")
    assert snap_compare(app, terminal_size=LARGE, run_before=driven(talk))


def test_talking_without_colours(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_of(ScriptedClient()), terminal_size=LARGE, run_before=driven(talk))


def test_the_first_screen(snap_compare: Snap) -> None:
    async def look(it: Driver) -> None:
        await it.sees("context 8,192")

    assert snap_compare(app_of(ScriptedClient()), terminal_size=SMALL, run_before=driven(look))


def test_the_figures_in_a_small_terminal(snap_compare: Snap) -> None:
    async def open_figures(it: Driver) -> None:
        await talk(it)
        await it.press("f7")
        await it.sees("SPEED")

    assert snap_compare(app_of(ScriptedClient()), terminal_size=SMALL, run_before=driven(open_figures))


def test_a_dead_engine(snap_compare: Snap) -> None:
    async def kill(it: Driver) -> None:
        await it.say("Why?")
        await it.play(text(it.client.turn, "Because of"), Died("killed by signal 9 (SIGKILL)"))
        await it.sees("The engine stopped")

    assert snap_compare(app_of(ScriptedClient()), terminal_size=SMALL, run_before=driven(kill))


def test_help(snap_compare: Snap) -> None:
    async def ask(it: Driver) -> None:
        await it.press("f1")
        await it.sees("Esc closes")

    async def run(pilot: Pilot) -> None:
        app = pilot.app
        assert isinstance(app, ChatApp)
        await ask(Driver(pilot, app, app.client))

    assert snap_compare(app_of(ScriptedClient()), terminal_size=(100, 20), run_before=run)
