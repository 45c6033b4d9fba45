"""A chat whose models come from somewhere: a catalogue of the test's own, folders, and a Hub on the loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from localspec import catalog, config
from localspec.conversation import Options
from localspec.fit import capacity
from localspec.fit.plan import Capacity
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags, SpeculationFlags
from localspec.opening import Opening
from localspec.shelf.fetching import Downloads
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp
from localspec.tui.supply import Supply
from tests.tui.driving import LOAD, WIDE, Driver
from tests.tui.scripted import ScriptedClient

OPTIONS = Options("SmolLM2 135M", "lookup", 8, Sampling())
MACHINE = Capacity((), 24_000_000_000, "the engine saw no GPU when it last ran")

PAIRS = """
[pairs.noise]
title = "Noise"
family = "Noise"
licence = "Apache-2.0"
methods = ["draft", "lookup"]
note = "Speaks in random letters."
target = { repo = "owner/Noise-GGUF", file = "Noise-Q8_0.gguf", size = 470_528, kv_bytes_per_token = 256 }
draft = { repo = "owner/Noise-GGUF", file = "Noise-small.gguf", size = 130_304, kv_bytes_per_token = 256 }

[pairs.giant]
title = "Giant 900B"
target = { repo = "owner/Giant", file = "Giant.gguf", size = 500_000_000_000, kv_bytes_per_token = 900_000 }

[pairs.demo]
title = "A small demo"
target = { package = "not_a_package_at_all", file = "demo.gguf", install = "small-demo==1", size = 98_000_000 }
"""


def isolate(home: Path, monkeypatch: pytest.MonkeyPatch, pairs: str = PAIRS) -> None:
    """A home of its own, a machine that is made up, and no pairs but these."""
    for name in ("HF_HOME", "OLLAMA_MODELS", "HF_TOKEN", "LOCALSPEC_PAIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(home))
    monkeypatch.setenv("HF_HUB_CACHE", str(home / "hub"))
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "60")  # what stalls is stopped by the user here
    for module in (config, catalog):
        monkeypatch.setattr(module, "config_dir", lambda: home)
    monkeypatch.setattr(capacity, "capacity", lambda: MACHINE)
    (home / "all.toml").write_text(pairs)
    monkeypatch.setattr(catalog, "_own_file", lambda: home / "all.toml")


def supply(*folders: Path, asked: str = "") -> Supply:
    opening = Opening(ModelFlags(), SpeculationFlags(), SamplingFlags(), AnswerFlags())
    return Supply(opening.chosen, folders, None, Downloads(), asked)


@asynccontextmanager
async def supplied(
    *folders: Path,
    size: tuple[int, int] = WIDE,
    client: ScriptedClient | None = None,
    first: bool = False,
    keys: Mapping[str, str] | None = None,
) -> AsyncIterator[Driver]:
    """`first`: nothing is loaded yet."""
    client = client or ScriptedClient()
    app = ChatApp(client, None if first else LOAD, OPTIONS, supply=supply(*folders, asked="demo"), keys=keys)
    async with app.run_test(size=size, tooltips=True) as pilot:
        it = Driver(pilot, app, client)
        if not first:
            await it.until(lambda: it.chat.methods and not it.screen.stale, "the model")
        yield it


async def open_models(it: Driver) -> None:
    """Open the model screen."""
    await it.press("f2")
    await it.sees("Models", "memory free")
