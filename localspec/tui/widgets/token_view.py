"""An answer token by token: who proposed it, what was rejected, and a cursor to ask about one.

Draws lines, not widgets: a long answer costs what is visible of it, a running one what is new in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from localspec.chat.answer import Answer
from localspec.chat.inspection import Place, inspected, places
from localspec.chat.session import Node
from localspec.chat.token_text import letters
from localspec.tui.token_lines import Mark, TokenLines, mark_of


class TokenView(Widget, can_focus=True):
    BINDING_GROUP_TITLE = "Tokens"
    HELP = (
        "Who proposed each token. On a soft ground: drafted, and accepted by the model. Underlined: the model's own. "
        "Struck through: rejected, before what the model put in its place. Dim: plain decoding. "
        "A letter: from here on another drafter's. The lines below tell about the token at the cursor."
    )
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "The token before", id="tokens.left"),
        Binding("right", "step(1)", "The token after", id="tokens.right"),
        Binding("up", "line(-1)", "A line up", id="tokens.up"),
        Binding("down", "line(1)", "A line down", id="tokens.down"),
        Binding("home", "end(False)", "The first token", id="tokens.home"),
        Binding("end", "end(True)", "The last token", id="tokens.end"),
        Binding("pageup", "screen.scroll(-1)", "Scroll the conversation up", id="tokens.page_up"),
        Binding("pagedown", "screen.scroll(1)", "Scroll the conversation down", id="tokens.page_down"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"tokens--{mark.value}" for mark in Mark} | {"tokens--cursor"}

    @dataclass
    class Pointed(Message):
        """The cursor is on another token, or gone. `line` is where, in lines of the view, if that is to be seen."""

        view: TokenView
        line: int | None

    @dataclass
    class Typed(Message):
        """A character that is meant for the prompt."""

        character: str

    def __init__(self, node: Node) -> None:
        super().__init__()
        assert node.answer is not None and node.asked is not None, "a node with an answer"
        self.node = node
        self.answer: Answer = node.answer
        self.cursor: int | None = None
        self._verifier = node.asked.verifier
        self._places: list[Place] = []
        self._lines = TokenLines(0)
        self._source = ""  # the drafter of the last accepted token
        self.letters: dict[str, str] = {}  # by drafter, once more than one had a token accepted

    def follow(self) -> None:
        """Take in what the answer has got since the last call."""
        if not self.size.width:
            return
        before = len(self._lines)
        if self._lines.width != self.size.width or self._letters() != self.letters:
            self._begin_again()
        elif len(self._places) == len(self.answer.pieces):
            return
        self._append()
        if len(self._lines) != before:
            self.refresh(layout=True)
        else:
            self.refresh(Region(0, before - 1, self.size.width, 1))

    def inspection(self, missing: str = "") -> tuple[str, str] | None:
        """The token at the cursor, and what there is to say about it. `missing`: why alternatives are, if they are."""
        if self.cursor is None or self.cursor >= len(self._places):
            return None
        return inspected(self.answer, self.cursor, self._places[self.cursor], self._verifier, missing)

    def _letters(self) -> dict[str, str]:
        sources = dict.fromkeys(made.source for made in self.answer.rounds if made.accepted)
        return letters(sources) if len(sources) > 1 else {}

    def _begin_again(self) -> None:
        self._lines, self._places, self._source = TokenLines(self.size.width), [], ""
        self.letters = self._letters()
        self.refresh(layout=True)

    def _append(self) -> None:
        first = self._places[-1].round + 1 if self._places else 0
        for place in places(self.answer.rounds, first):
            token = len(self._places)
            piece = self.answer.pieces[token]
            self._places.append(place)
            self._lines.add(token, piece, mark_of(piece, place.position), self._letter(piece.provenance))

    def _letter(self, source: str) -> str:
        """The drafter's letter, where another one's tokens begin."""
        if source not in self.letters or source == self._source:
            return ""
        self._source = source
        return self.letters[source]

    # Drawing

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        if width != self._lines.width and width > 0:
            self._lines, self._places, self._source = TokenLines(width), [], ""
            self._append()
        return len(self._lines)

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        drawn = [Segment(run.text, self._style(run.token, run.mark)) for run in self._lines.runs(y)]
        return Strip(drawn).adjust_cell_length(self.size.width, base)

    def _style(self, token: int, mark: Mark) -> Style:
        at_cursor = token == self.cursor and mark not in (Mark.GHOST, Mark.LETTER)
        return self.get_component_rich_style("tokens--cursor" if at_cursor else f"tokens--{mark.value}")

    def on_resize(self) -> None:
        self.follow()

    # The cursor

    def point(self, token: int | None, *, seen: bool = True) -> None:
        """Move the cursor; None takes it away. `seen`: scroll to it."""
        if not self._places:
            return
        former, self.cursor = self.cursor, token if token is None else min(max(token, 0), len(self._places) - 1)
        for each in (former, self.cursor):
            if each is not None:
                line = self._lines.place_of(each)[1]
                self.refresh(Region(0, line, self.size.width, len(self._lines) - line))
        here = self._lines.place_of(self.cursor)[1] if seen and self.cursor is not None else None
        self.post_message(self.Pointed(self, here))

    def action_step(self, by: int) -> None:
        self.point((len(self._places) if self.cursor is None else self.cursor) + by)

    def action_line(self, by: int) -> None:
        if self.cursor is None:
            self.action_end(True)
            return
        x, line = self._lines.place_of(self.cursor)
        token = self._lines.token_at(x, line + by) if 0 <= line + by < len(self._lines) else None
        if token is not None:
            self.point(token)

    def action_end(self, last: bool) -> None:
        self.point(len(self._places) - 1 if last else 0)

    def on_focus(self) -> None:
        if self.cursor is None:
            self.action_end(True)

    def on_blur(self) -> None:
        self.point(None)

    def on_leave(self) -> None:
        if not self.has_focus:
            self.point(None)

    def on_key(self, event: events.Key) -> None:
        if event.is_printable and event.character:
            event.stop()
            self.post_message(self.Typed(event.character))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self._point_at(event)

    def on_click(self, event: events.Click) -> None:
        event.stop()  # the screen would give the focus to the prompt
        self._point_at(event)

    def _point_at(self, event: events.MouseEvent) -> None:
        token = self._lines.token_at(event.x, event.y)
        if token is not None and token != self.cursor:
            self.point(token, seen=False)
