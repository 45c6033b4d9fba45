"""What a model thinks before it answers: its last lines while it thinks, one line once the answer begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

from localspec.chat.text import visible
from localspec.chat.thinking import Parts

_TAIL_LINES, _TAIL_CHARACTERS = 6, 800


class ThoughtView(Vertical, can_focus=True):
    HELP = "What the model thought before it answered. Enter opens and closes it, Tab goes on."
    BINDING_GROUP_TITLE = "Thoughts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "flip", "Open or close this thought", id="thought.flip"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._head = Static(classes="head")
        self._body = Static(classes="body")
        self._parts = Parts("", "")
        self._tokens = 0
        self.opened = False  # by the user

    def compose(self) -> ComposeResult:
        yield self._head
        yield self._body

    def on_mount(self) -> None:
        self._draw()

    def follow(self, parts: Parts, tokens: Callable[[], int]) -> None:
        """Draw what is new. `tokens` counts them: only asked when something is."""
        if parts.thought != self._parts.thought or parts.thinking != self._parts.thinking:
            self._parts, self._tokens = parts, tokens()
            self._draw()

    def action_flip(self) -> None:
        self.opened = not self.opened
        self._draw()

    def on_click(self) -> None:
        self.action_flip()

    def _draw(self) -> None:
        thinking = self._parts.thinking
        mark = "▾" if self.opened else "▸"
        said = "thinking …" if thinking else "thought for"
        count = "1 token" if self._tokens == 1 else f"{self._tokens:,} tokens"
        self._head.update(Content.styled(f"{mark} {said} {count}", "$foreground-muted"))
        text = visible(self._parts.thought) if self.opened else self._tail() if thinking else ""
        self._body.display = bool(text)
        if text:
            self._body.update(Content(text))

    def _tail(self) -> str:
        """The last lines: laying out a long thought again with every piece would be slow."""
        if self.screen.has_class("-no-thoughts"):
            return ""
        return "\n".join(visible(self._parts.thought[-_TAIL_CHARACTERS:]).split("\n")[-_TAIL_LINES:])
