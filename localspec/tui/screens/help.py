"""F1: the keys, read from the bindings themselves so that they can't go stale, and what the figures mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

_WORDS = (
    ("acceptance", "how many of the draft tokens it checked the model kept"),
    ("mean length", "tokens a round, the model's own included; plain is 1.0"),
    ("by position", "acceptance of the first, second, ... token of a draft"),
    ("round", "one pass of the model: draft, verify, sample"),
    ("segments", "stretches of the answer under one method"),
)
_COLUMN = 22


class HelpScreen(ModalScreen[None]):
    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,enter", "dismiss", "Close", id="help.close"),
    ]

    def __init__(self, bindings: Iterable[Binding]) -> None:
        super().__init__()
        self._keys = [(binding.key, binding.description) for binding in bindings if binding.description]

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            yield Static(
                Content("\n").join([_title("Keys"), *self._rows(), Content(""), _title("Figures"), *_words()])
            )

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def _rows(self) -> Iterable[Content]:
        for keys, description in self._keys:
            yield _row("  ".join(shown(key) for key in keys.split(",")), description)


def shown(key: str) -> str:
    """`ctrl+t` -> `Ctrl+T`. Terminals send Ctrl+/ as Ctrl+_."""
    names = {"up": "↑", "left": "←", "right": "→", "pageup": "PgUp", "pagedown": "PgDn", "underscore": "/"}
    return "+".join(names.get(part, part.capitalize()) for part in key.split("+"))


def _title(text: str) -> Content:
    return Content.styled(text, "bold $primary")


def _row(left: str, right: str) -> Content:
    return Content.assemble((left.ljust(_COLUMN), "bold"), right)


def _words() -> Iterable[Content]:
    return (_row(word, meaning) for word, meaning in _WORDS)
