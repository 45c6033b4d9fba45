"""F1: about the widget that has the keys, then all keys and commands, read from where they are defined so that they
can't go stale, and what the figures mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from textwrap import wrap
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.dom import DOMNode
from textual.screen import ModalScreen
from textual.widgets import Static

from localspec.commands import explained
from localspec.tui.keymap import shown

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

    def __init__(self, nodes: Iterable[DOMNode], keys: Mapping[str, str]) -> None:
        """`nodes` are the widget that has the keys and what is around it, the inmost first; `keys` the user's own."""
        super().__init__()
        self._chain, self._wanted = tuple(nodes), keys

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "Help"
            box.border_subtitle = "Esc closes"
            yield Static()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        width = self.query_one(VerticalScroll).scrollable_content_region.width or _COLUMN * 3
        self.query_one(Static).update(Content("\n").join(self._lines(width)))

    def _lines(self, width: int) -> Iterator[Content]:
        for node in self._chain:
            if help := getattr(node, "HELP", None):
                yield from (Content(str(help)), Content(""))
                break
        yield _title("Keys")
        for node in self._chain:
            for binding in own_bindings(type(node)):
                yield _row(shown(self._wanted.get(binding.id or "", binding.key)), binding.description, width)
        yield from (Content(""), _title("Commands"))
        yield from (_row(name, help, width) for name, help in explained())
        yield from (Content(""), _title("Figures"))
        yield from (_row(word, meaning, width) for word, meaning in _WORDS)


def own_bindings(kind: type) -> Iterator[Binding]:
    """Those that this program gave to a widget, with a name that a user can change."""
    for base in kind.__mro__:
        bindings: Iterable[object] = vars(base).get("BINDINGS", ())
        yield from (b for b in bindings if isinstance(b, Binding) and b.id and b.description)


def _title(text: str) -> Content:
    return Content.styled(text, "bold $primary")


def _row(left: str, right: str, width: int) -> Content:
    """Two columns. A long left side takes a line of its own, and is not cut."""
    lines = wrap(right, max(width - _COLUMN, 20))
    before = left.ljust(_COLUMN) if len(left) < _COLUMN else f"{left}\n{' ' * _COLUMN}"
    return Content.assemble((before, "bold"), f"\n{' ' * _COLUMN}".join(lines))
