"""The head of the transcript: what this is, what is loaded, and how to begin."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from localspec.chat.text import one_line
from localspec.conversation import Conversation
from localspec.engine.messages import Ready


class Welcome(Widget):
    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation

    def render(self) -> Content:
        lines = [
            Content(
                "A drafter guesses a few tokens ahead, the model checks them all in one pass. "
                "The text is the model's own; only the speed changes. Everything stays on this computer."
            )
        ]
        engine = self._conversation.engine
        if isinstance(engine, Ready):
            model = engine.target
            lines.append(
                Content(
                    f"{one_line(model.description, 60)} · context {model.n_ctx:,} tokens · "
                    f"{one_line(engine.environment.backend, 20)} · {model.threads} threads"
                )
            )
        return Content("\n").join(lines)
