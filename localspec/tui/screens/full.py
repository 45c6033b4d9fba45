"""The context is full: what to do about it is the user's choice, and this asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localspec.conversation import Conversation, Full

Act = Callable[[], None]


class FullScreen(ModalScreen[Act | None]):
    """Dismissed with what was chosen; None: stop here."""

    CSS_PATH = "full.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "stop", "Leave it as it is", id="full.stop")]

    def __init__(self, conversation: Conversation, full: Full) -> None:
        super().__init__()
        self._full = full
        messages = sum(1 for node in full.oldest if node.message)
        self._choices: list[tuple[str, Act | None]] = [
            (f"Leave out the oldest {messages:,} messages and their answers", conversation.drop_oldest),
            ("Begin a new session; this one is kept", conversation.new_session),
            ("Stop here", None),
        ]
        if not full.oldest:
            del self._choices[0]

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "The context is full"
            yield Static(
                f"{self._full.used:,} of {self._full.room:,} tokens. What is left out stays on the screen."
            )
            yield OptionList(*(Option(text) for text, _ in self._choices), markup=False)

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index][1])

    def action_stop(self) -> None:
        self.dismiss(None)
