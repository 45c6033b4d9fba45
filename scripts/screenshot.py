#!/usr/bin/env python3
"""Pictures of the running chat for the documentation: the real engine, the demo model, real answers.

Usage: python scripts/screenshot.py [FOLDER]      (default: docs)
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import OptionList

from localspec import catalog
from localspec.conversation import Options
from localspec.engine.messages import Load
from localspec.engine.process import ProcessClient
from localspec.fit import capacity
from localspec.fit.plan import Capacity, Gpu
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags, SpeculationFlags
from localspec.model import ModelSpec
from localspec.opening import Opening
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp
from localspec.tui.screens.models import ModelsScreen
from localspec.tui.screens.race import RaceScreen
from localspec.tui.supply import Supply
from localspec.tui.widgets.token_view import TokenView

ASKED = (
    "Explain what a hash table is, with a short example in Python.",
    "Repeat the example and add a comment to each line.",
)
LONG_ENOUGH = 120  # tokens of the second answer, half of them with each method


@asynccontextmanager
async def chat(size: tuple[int, int], theme: str, method: str) -> AsyncIterator[tuple[ChatApp, Pilot[None]]]:
    pair = catalog.find(catalog.DEFAULT)
    load = Load(ModelSpec(str(catalog.resolve(pair).target)))
    options = Options(pair.title, method, 6, Sampling(temperature=0.0), max_tokens=220)
    with tempfile.TemporaryDirectory() as folder:
        app = ChatApp(ProcessClient(Path(folder, "engine.log")), load, options, theme=theme)
        async with app.run_test(size=size) as pilot:
            await _until(pilot, lambda: bool(app.conversation.methods))
            yield app, pilot


async def talking(path: Path, size: tuple[int, int], theme: str) -> None:
    """A second answer that is being written, with a switch of the method in it."""
    async with chat(size, theme, "off") as (app, pilot):
        await _answered(app, pilot, ASKED[0])
        await _say(pilot, ASKED[1])
        await _until(pilot, lambda: _tokens(app) > LONG_ENOUGH // 2)
        await pilot.press("f3")
        await _until(pilot, lambda: _tokens(app) > LONG_ENOUGH or not app.conversation.running)
        await _keep(app, pilot, path, "localspec chat")


async def tokens(path: Path) -> None:
    """An answer token by token, with the cursor on one that corrects a draft."""
    async with chat((110, 32), "localspec-dark", "lookup") as (app, pilot):
        for question in ASKED:
            await _answered(app, pilot, question)
        await pilot.press("f7", "f5")  # the whole width for the tokens
        await _until(pilot, lambda: bool(app.screen.query(TokenView)))
        await pilot.pause(0.3)
        view = app.screen.query(TokenView).last()
        rejected = [n for n, piece in enumerate(view.answer.pieces) if 3 < len(piece.ghost) < 30]
        view.point(rejected[len(rejected) // 2] if rejected else len(view.answer.pieces) - 1)
        await _keep(app, pilot, path, "localspec chat: tokens")


async def race(path: Path) -> None:
    """Two answers that were shown at their true speed, and the result. Wants a machine with nothing else to do."""
    async with chat((110, 32), "localspec-dark", "lookup") as (app, pilot):
        for question in ASKED:
            await _answered(app, pilot, question)
        await pilot.press("f6")
        await _until(pilot, lambda: isinstance(app.screen, RaceScreen) and app.screen.race.over)
        await pilot.press("enter")
        await _keep(app, pilot, path, "localspec chat: race")


async def _keep(app: ChatApp, pilot: Pilot[None], path: Path, title: str) -> None:
    await pilot.pause(0.5)
    path.write_text(app.export_screenshot(title=title), encoding="utf-8")
    print(path)


async def _answered(app: ChatApp, pilot: Pilot[None], text: str) -> None:
    before = len(app.conversation.answers)
    await _say(pilot, text)
    await _until(pilot, lambda: len(app.conversation.answers) > before and not app.conversation.running)


async def _say(pilot: Pilot[None], text: str) -> None:
    for letter in text:
        await pilot.press("space" if letter == " " else letter)
    await pilot.press("enter")
    await pilot.pause(0.2)


async def _until(pilot: Pilot[None], condition: Callable[[], bool]) -> None:
    while not condition():
        await pilot.pause(0.05)


def _tokens(app: ChatApp) -> int:
    """Tokens of the second answer so far."""
    answers = app.conversation.answers
    answer = answers[-1].answer if len(answers) > 1 else None
    return len(answer.token_ids) if answer else 0


async def models(path: Path) -> None:
    """What there is to choose from, on a machine with a GPU of 12 GB: that one is made up, so that all marks occur."""
    gpu = Gpu("CUDA0", 11_400_000_000, 12_000_000_000)
    capacity.capacity = lambda: Capacity((gpu,), 28_000_000_000)
    opening = Opening(ModelFlags(), SpeculationFlags(), SamplingFlags(), AnswerFlags())
    async with chat((110, 32), "localspec-dark", "auto") as (app, pilot):
        app.supply = Supply(opening.chosen)
        await pilot.press("f2")
        await _until(pilot, lambda: isinstance(app.screen, ModelsScreen) and _rows(app) > 1)
        await pilot.press(*["down"] * 5)
        await _keep(app, pilot, path, "localspec chat, F2")


def _rows(app: ChatApp) -> int:
    return app.screen.query_one(OptionList).option_count


async def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    await talking(folder / "chat.svg", (120, 36), "localspec-dark")
    await talking(folder / "chat-narrow.svg", (72, 24), "localspec-light")
    await tokens(folder / "tokens.svg")
    await race(folder / "race.svg")
    await models(folder / "models.svg")


if __name__ == "__main__":
    if len(sys.argv) > 2 or any(argument.startswith("-") for argument in sys.argv[1:]):
        raise SystemExit(__doc__)
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")))
