"""Prompts that were sent while something else was running. They go out in this order."""

from __future__ import annotations

from textual.content import Content

from localspec.chat.text import one_line
from localspec.engine.messages import Loading, Ready
from localspec.tui.widgets.drawn import Drawn

_SHOWN = 3


class QueueView(Drawn):
    def drawn(self, width: int) -> Content:
        queue = self.conversation.queue
        first = max(0, len(queue) - _SHOWN)
        lines = [
            Content.assemble((" queued  ", "$foreground-muted"), one_line(text, width - 14))
            for text in queue[first:]
        ]
        lines.append(Content.styled(f" {self._why()} · ↑ takes the last one back", "$foreground-muted"))
        return Content("\n").join(lines)

    def follow(self) -> None:
        """Appear with the first queued prompt, leave with the last."""
        self.display = bool(self.conversation.queue)
        self.styles.height = min(len(self.conversation.queue), _SHOWN) + 1
        super().follow()

    def _why(self) -> str:
        chat = self.conversation
        count = len(chat.queue)
        if isinstance(chat.engine, Loading):
            return f"{count} waiting for the model"
        if chat.engine is None:
            return f"{count} waiting · F2 chooses a model"
        if not isinstance(chat.engine, Ready):
            return f"{count} waiting · F8 reloads the model"
        return f"{count} held back after the failure · Enter sends" if chat.paused else f"{count} waiting"
