"""The first row of a long transcript: how many messages are above it, and a way to see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static


class EarlierRow(Static, can_focus=True):
    HELP = "Earlier messages of this conversation. Enter shows some more of them."
    BINDING_GROUP_TITLE = "Earlier messages"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "show_more", "Show earlier messages", id="earlier.show"),
    ]

    @dataclass
    class Wanted(Message):
        pass

    def __init__(self) -> None:
        super().__init__()
        self.display = False

    def show(self, count: int) -> None:
        if self.display != bool(count) or count:
            self.display = bool(count)
            self.update(f"▴ earlier messages: {count:,} · Enter or a click shows more")

    def action_show_more(self) -> None:
        self.post_message(self.Wanted())

    def on_click(self) -> None:
        self.action_show_more()
