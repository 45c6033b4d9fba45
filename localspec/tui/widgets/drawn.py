"""A widget that is a function of the conversation and of its own width. Drawn when told to, never while it renders:
a bug in it is then the screen's to report, and not the end of the program."""

from __future__ import annotations

from typing import ClassVar

from textual.content import Content
from textual.widgets import Static

from localspec.conversation import Conversation
from localspec.tui.keymap import shown


class Drawn(Static):
    GROWS: ClassVar[bool] = False  # its height depends on what it says

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation

    def drawn(self, width: int) -> Content:
        raise NotImplementedError

    def follow(self) -> None:
        if self.size.width:
            self.update(self.drawn(self.size.width), layout=self.GROWS)

    def key(self, name: str, usual: str) -> str:
        """The first key of a binding, for people: the user's own, or the `usual` one."""
        own = getattr(self.app, "keys", {}).get(name, "")
        return shown(own.split(",")[0]) if own else usual

    def on_resize(self) -> None:
        self.follow()
