"""A line under the transcript: text has come below what the user looks at."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class TailHint(Static):
    def __init__(self) -> None:
        super().__init__(Content(" ↓ new text below · Ctrl+End or a click goes there"))
        self.display = False

    async def on_click(self) -> None:
        await self.run_action("screen.to_the_end")
