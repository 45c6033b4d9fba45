#!/usr/bin/env python3
"""Pictures of the running chat for the documentation, played by the scripted engine of the tests.

Usage: python scripts/screenshot.py [FOLDER]      (default: docs)
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from localspec.conversation import Options
from localspec.engine.messages import Emitted, Load
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp
from tests.tui.scripted import ScriptedClient, emitted, finished, rounds

QUESTION = "Explain what a hash table is, with a short example."
ANSWER = '''A **hash table** stores pairs of keys and values. A *hash function* turns each key into the number of a \
bucket, so that a lookup goes straight to the right place instead of searching everything.

```python
def put(table, key, value):
    index = hash(key) % len(table)
    table[index].append((key, value))

def get(table, key):
    index = hash(key) % len(table)
    for stored, value in table[index]:
        if stored == key:
            return value
```

- **Average cost** of a lookup is constant.
- Two keys may fall into one bucket; the list in it keeps both.
'''
AGAIN = "Now the same with a function that removes a key."
MORE = '''```python
def remove(table, key):
    index = hash(key) % len(table)
    for place, (stored, value) in enumerate(table[index]):
        if stored == key:
            del table[index][place]
'''


async def picture(path: Path, size: tuple[int, int], *, theme: str = "localspec-dark") -> None:
    client = ScriptedClient(ANSWER)
    app = ChatApp(client, Load(ModelSpec("demo.gguf")), Options("SmolLM2 135M Instruct", "lookup", 8, Sampling(temperature=0.7)))
    async with app.run_test(size=size) as pilot:
        app.theme = theme
        await pilot.pause(0.3)
        await say(pilot, QUESTION)
        while app.conversation.running or not client.asked:
            await pilot.pause(0.1)
        await say(pilot, AGAIN)
        while len(client.asked) < 2:
            await pilot.pause(0.1)
        plain, fast = MORE[:80], MORE[80:]
        client.play(emitted(client.turn, rounds(plain, method="off")))
        client.play(emitted(client.turn, rounds(fast, method="lookup", seed=3)))
        while not client.idle:
            await pilot.pause(0.1)
        await pilot.pause(0.5)
        path.write_text(app.export_screenshot(title="localspec chat"), encoding="utf-8")


async def say(pilot, text: str) -> None:
    from localspec.tui.widgets.prompt import Prompt

    pilot.app.screen.query_one(Prompt).put(text)
    await pilot.press("enter")


async def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    await picture(folder / "chat.svg", (116, 40))
    await picture(folder / "chat-narrow.svg", (72, 30))
    await picture(folder / "chat-light.svg", (116, 40), theme="localspec-light")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs")))
