"""The head of the transcript: what this is, what is loaded, and how to begin."""

from __future__ import annotations

from textual.content import Content

from localspec.chat.text import one_line
from localspec.engine.messages import Ready
from localspec.tui.widgets.drawn import Drawn


class Welcome(Drawn):
    GROWS = True

    def drawn(self, width: int) -> Content:
        lines = [
            Content(
                "A drafter guesses a few tokens ahead, the model checks them all in one pass. "
                f"The text is the model's own; only the speed changes. {self._place}"
            )
        ]
        engine = self.conversation.engine
        if isinstance(engine, Ready):
            model = engine.target
            parts = [one_line(model.description, 60)]
            if model.n_ctx:
                parts.append(f"context {model.n_ctx:,} tokens")
            if not self._served:
                parts += [one_line(engine.environment.backend, 20), f"{model.threads} threads"]
            lines.append(Content(" · ".join(parts)))
        return Content("\n").join(lines)

    @property
    def _served(self) -> bool:
        return "://" in self.conversation.options.title  # the address is part of it

    @property
    def _place(self) -> str:
        """Where what is said here goes."""
        engine = self.conversation.engine
        if self._served:
            return "Everything goes to the server that is named above."
        if isinstance(engine, Ready) and engine.environment.backend == "RPC":
            return "Other machines compute a part of it."
        return "Everything stays on this computer."
