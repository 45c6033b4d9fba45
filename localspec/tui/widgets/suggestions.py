"""The list over the prompt while a command or a file is typed. The prompt keeps the cursor; this only shows."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from localspec.chat.text import visible
from localspec.tui.completion import Offer, Suggestion

_WIDEST = 34


class Suggestions(Static):
    """`offer` is what is shown; None hides the list. `moved`: the user has chosen a line."""

    def __init__(self) -> None:
        super().__init__()
        self.display = False
        self.offer: Offer | None = None
        self.moved = False
        self._line = 0

    def show(self, offer: Offer | None) -> None:
        if offer != self.offer:
            self.offer, self.moved, self._line = offer, False, 0
            self._draw()

    def move(self, by: int) -> None:
        if self.offer and self.offer.items:
            first = 0 if by > 0 else -1
            self._line = (first if self.chosen is None else self._line + by) % len(self.offer.items)
            self.moved = True
            self._draw()

    @property
    def chosen(self) -> Suggestion | None:
        """The line that Enter and Tab take; none at first where the text can be sent as it stands."""
        if self.offer is None or not self.offer.items or (self.offer.done and not self.moved):
            return None
        return self.offer.items[self._line]

    def first(self) -> Suggestion | None:
        """What Tab takes: it is not asked for by accident."""
        return self.chosen or (self.offer.items[0] if self.offer and self.offer.items else None)

    def _draw(self) -> None:
        self.display = self.offer is not None
        if self.offer is None:
            return
        items = self.offer.items
        width = min(max((cell_len(_shown(item)) for item in items), default=0), _WIDEST)
        lines = [_line(item, width, chosen=item is self.chosen) for item in items]
        if self.offer.hint:
            lines.append(Content.styled(f"  {self.offer.hint}", "$foreground-muted"))
        self.update(Content("\n").join(lines))


def _shown(item: Suggestion) -> str:
    """On one line, letter by letter: the marks count letters."""
    return visible(item.shown).replace("\n", "␊")


def _line(item: Suggestion, width: int, *, chosen: bool) -> Content:
    """The cursor is a sign as well as a colour."""
    text = _shown(item)
    shown = Content(text)
    for place in item.marks:
        shown = shown.stylize("underline bold", place, place + 1)
    gap = " " * (width - cell_len(text) + 2)
    line = Content.assemble("▸ " if chosen else "  ", shown, gap, (item.note, "$foreground-muted"))
    return line.stylize("$primary", 0, 2) if chosen else line
