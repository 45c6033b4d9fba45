"""The editor for the next message. Enter sends; what is pasted is text, whatever it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from localspec.chat.text import visible


class Prompt(TextArea):
    BINDING_GROUP_TITLE = "Writing"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="prompt.send"),
        Binding("shift+enter,ctrl+j", "newline", "New line", id="prompt.newline"),
        Binding("up", "cursor_up", "In an empty prompt: edit an earlier message", id="prompt.recall"),
        Binding("pageup", "screen.scroll(-1)", "Scroll the conversation up", id="prompt.page_up", priority=True),
        Binding(
            "pagedown", "screen.scroll(1)", "Scroll the conversation down", id="prompt.page_down", priority=True
        ),
        Binding("ctrl+d", "delete_or_quit", "Quit, in an empty prompt", id="prompt.quit"),
    ]

    @dataclass
    class Sent(Message):
        text: str

    @dataclass
    class Recalled(Message):
        """The user leafs through earlier messages: -1 towards older ones."""

        step: int

    def __init__(self) -> None:
        super().__init__(soft_wrap=True, tab_behavior="focus", placeholder="Write a message")
        self.cursor_blink = False
        self._in_order: dict[str, Callable[[], None]] = {
            "enter": self.action_send,
            "shift+enter": self.action_newline,
            "ctrl+j": self.action_newline,
            "up": self.action_cursor_up,
            "down": self.action_cursor_down,
            "ctrl+d": self.action_delete_or_quit,
        }
        self._recalled = ""

    def put(self, text: str) -> None:
        """Replace the text and go to its end."""
        self.text = self._recalled = visible(text)
        self.move_cursor(self.document.end)

    def give_back(self, text: str) -> None:
        """Put a text that was not taken before what was typed since."""
        self.put(f"{text}\n{self.text}" if self.text.strip() else text)

    def action_send(self) -> None:
        text = self.text
        self.put("")  # at once: the next message may arrive in the same burst of keys
        self.post_message(self.Sent(text))

    def action_newline(self) -> None:
        self.insert("\n")

    def action_cursor_up(self, select: bool = False) -> None:
        if select or not self._leafing or self.cursor_location[0] > 0:
            super().action_cursor_up(select)
        else:
            self.post_message(self.Recalled(-1))

    def action_cursor_down(self, select: bool = False) -> None:
        if select or not self._leafing or self.cursor_location[0] < self.document.line_count - 1:
            super().action_cursor_down(select)
        else:
            self.post_message(self.Recalled(1))

    def action_delete_or_quit(self) -> None:
        if self.text:
            self.action_delete_right()
        else:
            self.app.exit()

    async def _on_key(self, event: events.Key) -> None:
        """Keys whose meaning depends on the text are handled here, in the order of typing: a binding would run
        before the characters that arrived just ahead of it are in the text."""
        act = self._in_order.get(event.key)
        if act is None:
            await super()._on_key(event)
            return
        event.stop()
        event.prevent_default()
        act()

    async def _on_paste(self, event: events.Paste) -> None:
        event.prevent_default()  # else Textual's own handler pastes it once more
        event.stop()
        await super()._on_paste(events.Paste(visible(event.text.replace("\r\n", "\n").replace("\r", "\n"))))

    @property
    def _leafing(self) -> bool:
        """Nothing of the user's own is in the editor: it is empty, or as it was recalled."""
        return self.text in ("", self._recalled)
