#!/usr/bin/env python3
"""Pictures of the running chat for the documentation: the real engine, the demo model, a real answer.

Usage: python scripts/screenshot.py [FOLDER]      (default: docs)
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from textual.pilot import Pilot

from localspec import catalog
from localspec.conversation import Options
from localspec.engine.messages import Load
from localspec.engine.process import ProcessClient
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp

ASKED = (
    "Explain what a hash table is, with a short example in Python.",
    "Repeat the example and add a comment to each line.",
)
LONG_ENOUGH = 120  # tokens of the second answer, half of them with each method


async def picture(path: Path, size: tuple[int, int], theme: str) -> None:
    pair = catalog.find(catalog.DEFAULT)
    load = Load(ModelSpec(str(catalog.resolve(pair).target)))
    options = Options(pair.title, "off", 6, Sampling(temperature=0.0), max_tokens=220)
    with tempfile.TemporaryDirectory() as folder:
        app = ChatApp(ProcessClient(Path(folder, "engine.log")), load, options, theme=theme)
        async with app.run_test(size=size) as pilot:
            await _until(pilot, lambda: bool(app.conversation.methods))
            await _say(pilot, ASKED[0])
            await _until(pilot, lambda: bool(app.conversation.answers) and not app.conversation.running)
            await _say(pilot, ASKED[1])
            await _until(pilot, lambda: _tokens(app) > LONG_ENOUGH // 2)
            await pilot.press("f3")
            await _until(pilot, lambda: _tokens(app) > LONG_ENOUGH or not app.conversation.running)
            await pilot.pause(0.5)
            path.write_text(app.export_screenshot(title="localspec chat"), encoding="utf-8")
    print(path)


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


async def main(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    await picture(folder / "chat.svg", (120, 36), "localspec-dark")
    await picture(folder / "chat-narrow.svg", (72, 24), "localspec-light")


if __name__ == "__main__":
    if len(sys.argv) > 2 or any(argument.startswith("-") for argument in sys.argv[1:]):
        raise SystemExit(__doc__)
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs")))
