"""The first start: no model is here yet, and there are three ways to one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localspec.engine.messages import Load
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.drafts import DraftsScreen
from localspec.tui.screens.first import FirstScreen
from localspec.tui.screens.models import ModelsScreen
from tests.conftest import Models
from tests.tui.driving import TINY, WIDE
from tests.tui.supplied import PAIRS, isolate, supplied
from tests.tui.test_models_screen import highlighted, loads, on


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    isolate(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize("size", [TINY, WIDE])
async def test_three_ways_and_nothing_is_loaded(size: tuple[int, int]) -> None:
    async with supplied(first=True, size=size) as it:
        await on(it, FirstScreen)
        await it.sees(
            "runs on this", "Try the small demo model now", "Noise, 1 MB: small enough", "Open a GGUF file"
        )
        assert not it.client.starts


async def test_the_demo_that_is_not_installed_names_the_command() -> None:
    async with supplied(first=True) as it:
        await it.sees("pip install --no-deps small-demo==1")
        await it.press("enter")
        await it.until(lambda: any("small-demo==1" in toast for toast in it.toasts))
        assert isinstance(it.app.screen, FirstScreen)


async def test_the_demo_that_is_installed_is_loaded(
    home: Path, monkeypatch: pytest.MonkeyPatch, models: Models
) -> None:
    path = models("noise")
    isolate(home, monkeypatch, f'[pairs.demo]\ntitle = "Tiny demo"\ntarget = {{ path = "{path}" }}\n')
    async with supplied(first=True) as it:
        await it.sees("Tiny demo")
        await it.press("enter")
        await on(it, ChatScreen)
        await it.until(lambda: it.chat.methods, "the model")
        assert loads(it)[-1].target.path == path
        await it.say("Hello?")


async def test_a_pair_begins_with_the_one_that_is_suggested(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = '[pairs.aaa]\ntarget = { repo = "o/aaa", file = "a.gguf", size = 9, kv_bytes_per_token = 1 }\n'
    isolate(home, monkeypatch, other + PAIRS)
    async with supplied(first=True) as it:
        await it.sees("Noise, 1 MB")
        await it.press("down", "enter")
        await on(it, ModelsScreen)
        await it.sees("giant")
        assert highlighted(it).startswith("noise")
        await it.press("escape")
        await on(it, FirstScreen)


async def test_a_file_can_be_opened(home: Path, models: Models) -> None:
    folder = home / "gguf"
    folder.mkdir()
    shutil.copy(models("noise"), folder / "mine.gguf")
    async with supplied(folder, first=True) as it:
        await it.sees("Open a GGUF file")
        await it.press("up", "enter")
        await on(it, ModelsScreen)
        await it.sees("mine")
        await it.press("enter")
        await on(it, DraftsScreen)
        await it.until(lambda: "checking" not in it.text)
        await it.press("enter")
        await on(it, ChatScreen)
        assert loads(it)[-1].target.path == str(folder / "mine.gguf")


async def test_escape_leads_to_a_chat_that_says_how_to_go_on() -> None:
    async with supplied(first=True) as it:
        await on(it, FirstScreen)
        await it.press("escape")
        await on(it, ChatScreen)
        await it.sees("no model", "F2 chooses one")
        it.prompt.put("Hello?")
        await it.press("enter")
        await it.sees("1 waiting · F2 chooses a model")
        await it.press("f8")
        await it.sees("No model is chosen yet.")
        assert not any(isinstance(command, Load) for command in it.client.commands)
