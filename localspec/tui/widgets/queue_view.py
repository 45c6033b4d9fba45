"""Prompts that were sent while something else was running. They go out in this order."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from localspec.chat.text import one_line
from localspec.conversation import Conversation
from localspec.engine.messages import Loading, Ready

_SHOWN = 3


class QueueView(Widget):
    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation

    def render(self) -> Content:
        queue, width = self._conversation.queue, self.size.width - 14
        first = max(0, len(queue) - _SHOWN)
        lines = [
            Content.assemble((" queued  ", "$foreground-muted"), one_line(text, width)) for text in queue[first:]
        ]
        lines.append(Content.styled(f" {self._why()} · ↑ takes the last one back", "$foreground-muted"))
        return Content("\n").join(lines)

    def follow(self) -> None:
        """Appear with the first queued prompt, leave with the last."""
        self.display = bool(self._conversation.queue)
        self.styles.height = min(len(self._conversation.queue), _SHOWN) + 1
        self.refresh()

    def _why(self) -> str:
        chat = self._conversation
        count = len(chat.queue)
        if isinstance(chat.engine, Loading):
            return f"{count} waiting for the model"
        if not isinstance(chat.engine, Ready):
            return f"{count} waiting · F8 reloads the model"
        return f"{count} held back after the failure · Enter sends" if chat.paused else f"{count} waiting"
