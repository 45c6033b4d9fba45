"""Driving the chat in tests: open it, wait for what must come, read the screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot

from localspec.chat.keeper import Keeper
from localspec.conversation import Options
from localspec.engine.messages import Load
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.widgets.prompt import Prompt
from tests.tui.scripted import ScriptedClient

LOAD = Load(ModelSpec("/models/demo.gguf"))
WIDE, NARROW, TINY = (120, 40), (80, 24), (60, 15)


class Driver:
    """A running chat, its scripted engine, and the verbs of a user."""

    def __init__(self, pilot: Pilot[None], app: ChatApp, client: ScriptedClient) -> None:
        self.pilot = pilot
        self.app = app
        self.client = client
        self.chat = app.conversation

    @property
    def screen(self) -> ChatScreen:
        screen = self.app.screen
        assert isinstance(screen, ChatScreen)
        return screen

    @property
    def prompt(self) -> Prompt:
        return self.beneath.query_one(Prompt)

    @property
    def beneath(self) -> ChatScreen:
        """The chat, also while another screen stands before it."""
        return next(screen for screen in self.app.screen_stack if isinstance(screen, ChatScreen))

    @property
    def text(self) -> str:
        """What stands on the screen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip).rstrip() for strip in strips)

    @property
    def toasts(self) -> list[str]:
        return [toast.message for toast in self.app._notifications]

    async def until(self, holds: Callable[[], object], what: str = "") -> None:
        for _ in range(1500):
            if holds():
                return
            await self.pilot.pause(0.01)
        raise AssertionError(f"did not come: {what}\n{self.text}")

    async def sees(self, *texts: str) -> None:
        for text in texts:
            await self.until(lambda text=text: text in self.text, repr(text))

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def say(self, text: str) -> None:
        """Send a message and wait until the engine was asked, or the message waits in the queue."""
        before = len(self.client.asked) + len(self.chat.queue)
        self.prompt.put(text)
        await self.press("enter")
        await self.until(lambda: len(self.client.asked) + len(self.chat.queue) > before, "the question")

    async def play(self, *events: Any) -> None:
        """Let the engine send these events, and wait until they were taken in and drawn."""
        for event in events:
            self.client.play(event)
        await self.until(lambda: self.client.idle, "an empty pipe")
        await self.until(lambda: not self.beneath.stale, "a drawn screen")

    async def answered(self) -> None:
        await self.until(lambda: not self.chat.running and self.client.idle, "the end of the answer")
        await self.until(lambda: not self.beneath.stale, "a drawn screen")


@asynccontextmanager
async def open_chat(
    client: ScriptedClient | None = None,
    size: tuple[int, int] = WIDE,
    folder: Path | None = None,
    keys: dict[str, str] | None = None,
    thoughts: bool = True,
    keeper: Keeper | None = None,
    **options: Any,
) -> AsyncIterator[Driver]:
    client = client or ScriptedClient()
    settings = {"title": "SmolLM2 135M", "method": "lookup", "draft_tokens": 8, "sampling": Sampling()} | options
    app = ChatApp(client, LOAD, Options(**settings), folder=folder, keys=keys, thoughts=thoughts, keeper=keeper)
    async with app.run_test(size=size, tooltips=True) as pilot:
        driver = Driver(pilot, app, client)
        await driver.until(lambda: client.commands and client.idle, "the load")
        await driver.until(lambda: not driver.screen.stale, "a drawn screen")
        yield driver
