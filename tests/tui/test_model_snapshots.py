"""How the model screens look, cell by cell. After a wanted change: pytest FILE --snapshot-update."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from localspec import hub
from localspec.hub import Plan, PlannedFile
from localspec.shelf import choosing
from localspec.shelf.fetching import Bar, Download, Planned
from localspec.tui.app import ChatApp
from localspec.tui.screens.drafts import DraftsScreen
from localspec.tui.screens.models import ModelsScreen
from localspec.tui.screens.plan import PlanScreen
from tests import ggufs_heads
from tests.conftest import Models
from tests.tui.driving import LOAD, Driver
from tests.tui.scripted import ScriptedClient
from tests.tui.supplied import OPTIONS, isolate, supply

SMALL, LARGE = (80, 24), (140, 45)
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
Snap = Callable[..., bool]

PAIRS = """
[pairs."smollm2-1.7b"]
title = "SmolLM2 1.7B Instruct"
family = "SmolLM2"
licence = "Apache-2.0"
methods = ["lookup", "draft"]
note = "For small laptops."
target = { repo = "o/a", file = "a.gguf", size = 1_060_000_000, kv_bytes_per_token = 196_608 }
draft = { repo = "o/b", file = "b.gguf", size = 145_000_000, kv_bytes_per_token = 23_040 }

[pairs."llama3.3-70b"]
title = "Llama 3.3 70B Instruct"
family = "Llama 3.3"
licence = "llama3.3"
gated = true
methods = ["draft", "lookup"]
target = { repo = "o/c", file = "c.gguf", size = 43_000_000_000, kv_bytes_per_token = 327_680 }

[pairs.demo]
title = "SmolLM2 135M Instruct"
family = "SmolLM2"
methods = ["lookup"]
target = { package = "not_a_package_at_all", file = "demo.gguf", install = "d==1", size = 98_000_000 }
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isolate(tmp_path, monkeypatch, PAIRS)
    return tmp_path


@pytest.fixture
def folder(tmp_path: Path, models: Models, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In the current folder, so that no path of this run is on the screen."""
    monkeypatch.chdir(tmp_path)
    made = Path("gguf")
    made.mkdir()
    for name, source in (("big", "noise"), ("small", "noise_q8"), ("other", "noise_add_bos")):
        shutil.copy(models(source), made / f"{name}.gguf")
    ggufs_heads.eagle3(made / "eagle3-big.gguf")
    (made / "broken.gguf").write_bytes(b"GGUF and then nothing")
    return made


def app_of(*folders: Path, first: bool = False) -> ChatApp:
    return ChatApp(ScriptedClient(), None if first else LOAD, OPTIONS, supply=supply(*folders))


def driven(act: Callable[[Driver], Awaitable[None]]) -> Callable[[Pilot[None]], Awaitable[None]]:
    async def run(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, ChatApp)
        await act(Driver(pilot, app, app.client))  # type: ignore[arg-type]
        await pilot.pause()

    return run


async def pairs(it: Driver) -> None:
    await it.until(lambda: it.chat.methods, "the model")
    await it.press("f2")
    await it.sees("memory free" if it.app.size.width > 90 else "too large")


async def files(it: Driver) -> None:
    await pairs(it)
    await it.press("tab")
    await it.sees("broken")


async def judged(it: Driver) -> None:
    await files(it)
    await it.press("enter")
    await it.until(lambda: isinstance(it.app.screen, DraftsScreen))
    await it.until(lambda: "checking" not in it.text and "✗" in it.text)


@SIZES
def test_pairs(snap_compare: Snap, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(), terminal_size=size, run_before=driven(pairs))


def test_pairs_without_colours(snap_compare: Snap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(app_of(), terminal_size=SMALL, run_before=driven(pairs))


@SIZES
def test_files(snap_compare: Snap, folder: Path, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(folder), terminal_size=size, run_before=driven(files))


@SIZES
def test_drafts(snap_compare: Snap, folder: Path, size: tuple[int, int]) -> None:
    assert snap_compare(app_of(folder), terminal_size=size, run_before=driven(judged))


def test_the_first_start(snap_compare: Snap) -> None:
    async def look(it: Driver) -> None:
        await it.sees("SmolLM2 1.7B Instruct, 1.2 GB")

    assert snap_compare(app_of(first=True), terminal_size=SMALL, run_before=driven(look))


def standing(name: str, state: str, *bars: Bar) -> Download:
    """A download as it looks at one moment."""
    row = next(row for row in choosing.shelf().pairs if row.name == name)
    assert row.pair is not None
    made = Download(row.pair)
    made.state, made.bars = state, bars  # type: ignore[assignment]
    return made


@SIZES
def test_downloads(snap_compare: Snap, size: tuple[int, int]) -> None:
    async def look(it: Driver) -> None:
        await pairs(it)
        going = standing(
            "smollm2-1.7b",
            "fetching",
            Bar("target", 640_000_000, 1_060_000_000, "52.1 MB/s, 8 s left"),
            Bar("draft", 0, 145_000_000),
        )
        broken = standing("llama3.3-70b", "failed")
        broken.error = hub.HubError("The disk that holds the cache is full.", "Make room, then try again.")
        it.app.supply.downloads._of = {"llama3.3-70b": broken, "smollm2-1.7b": going}  # type: ignore[attr-defined]
        await it.press("shift+tab")
        await it.sees("52.1 MB/s")

    assert snap_compare(app_of(), terminal_size=size, run_before=driven(look))


def test_a_plan(snap_compare: Snap) -> None:
    async def look(it: Driver) -> None:
        await pairs(it)
        download = standing("smollm2-1.7b", "planned")
        download.ask = lambda: None  # type: ignore[method-assign]
        files = (
            PlannedFile(
                "target", "o/a", "a.gguf", "main", "c" * 40, 1_060_000_000, "e", None, here=False, partial=4_000_000
            ),
            PlannedFile("draft", "o/b", "b.gguf", "main", "c" * 40, 145_000_000, "e", None, here=True),
        )
        download.planned = Planned(Plan(files, Path("cache")), 90_000_000_000)
        screen = it.app.screen
        assert isinstance(screen, ModelsScreen)
        it.app.push_screen(PlanScreen(download, screen._rows[0]))
        await it.sees("To fetch: 1.1 GB")

    assert snap_compare(app_of(), terminal_size=SMALL, run_before=driven(look))
