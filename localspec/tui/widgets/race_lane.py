"""One of the two answers of a race, as far as it was written at some moment."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from localspec.chat.text import visible
from localspec.race import Lane


class RaceLane(VerticalScroll, can_focus=False):
    def __init__(self, lane: Lane, title: str) -> None:
        super().__init__()
        self._lane = lane
        self._text = Static()
        self._drawn: tuple[int, int | None] | None = None
        self.border_title = Content(title)

    def compose(self) -> ComposeResult:
        yield self._text

    def on_mount(self) -> None:
        self.anchor()

    def show(self, tokens: int, parting: int | None = None) -> None:
        """The first `tokens` of it; from token `parting` on it is another text than its neighbour."""
        if (tokens, parting) == self._drawn:
            return
        self._drawn = tokens, parting
        pieces = [visible(piece.text) for piece in self._lane.answer.pieces[:tokens]]
        place = tokens if parting is None else parting
        common, first, rest = (
            "".join(pieces[:place]),
            "".join(pieces[place : place + 1]),
            "".join(pieces[place + 1 :]),
        )
        self._text.update(Content.assemble(common, (first, "reverse"), (rest, "$foreground-muted")))
