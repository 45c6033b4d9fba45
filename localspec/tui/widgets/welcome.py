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
                "The text is the model's own; only the speed changes. Everything stays on this computer."
            )
        ]
        engine = self.conversation.engine
        if isinstance(engine, Ready):
            model = engine.target
            lines.append(
                Content(
                    f"{one_line(model.description, 60)} · context {model.n_ctx:,} tokens · "
                    f"{one_line(engine.environment.backend, 20)} · {model.threads} threads"
                )
            )
        return Content("\n").join(lines)
