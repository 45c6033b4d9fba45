"""The active path of the conversation with its notes, oldest first. Follows the tail while the user is there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TypeAlias

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll

from localspec.chat.session import Node
from localspec.conversation import Conversation, Note
from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.inspector import Inspector
from localspec.tui.widgets.note_view import NoteView
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.token_view import TokenView
from localspec.tui.widgets.user_message import UserMessage
from localspec.tui.widgets.welcome import Welcome

Row: TypeAlias = AnswerView | UserMessage | NoteView


class Transcript(VerticalScroll, can_focus=False):
    """Draws what the conversation says. The rows that are the same stay: an edit, another answer or a sibling
    changes only what comes after it."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._rows: list[tuple[Node | Note, Row]] = []

    def compose(self) -> ComposeResult:
        with Vertical(id="rows"):
            yield Welcome(self._conversation)

    def on_mount(self) -> None:
        self.anchor()

    async def follow(self, *, figures: bool) -> None:
        items = list(self._items())
        pairs = zip(items, self._rows, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1][0], pairs))
        for _, row in self._rows[same:]:
            await row.remove()
        fresh = [(item, self._row(item)) for item in items[same:]]
        self._rows[same:] = fresh
        if fresh:
            await self.query_one("#rows").mount_all(row for _, row in fresh)
            if self.has_class("-tokens"):
                self._show_tokens(True, [row for _, row in fresh])
        for _, row in self._rows:
            if isinstance(row, AnswerView):
                await row.follow(figures=figures)
        if figures:
            self._inspect()

    def flip_thoughts(self) -> None:
        """Of the last answer that has any."""
        for _, row in reversed(self._rows):
            if isinstance(row, AnswerView) and row.thoughtful:
                row.flip_thought()
                return

    def flip_tokens(self, node_id: int | None = None) -> None:
        """Show tokens instead of text, or text again: in one answer, or in all, those to come included."""
        rows = [
            row for item, row in self._rows if node_id is None or (isinstance(item, Node) and item.id == node_id)
        ]
        shown = not any(isinstance(row, AnswerView) and row.tokens for row in rows)
        if node_id is None:
            self.set_class(shown, "-tokens")
        self._show_tokens(shown, rows)
        self.call_after_refresh(self._settle, shown)

    def _settle(self, shown: bool) -> None:
        """The last tokens take the cursor keys; without any, the prompt has them again."""
        views = [view for view in self.query(TokenView) if view.display]
        (views[-1] if shown and views else self.screen.query_one(Prompt)).focus()
        self._inspect()

    def _show_tokens(self, shown: bool, rows: list[Row]) -> None:
        for row in rows:
            if isinstance(row, AnswerView):
                row.show_tokens(shown)

    @on(TokenView.Typed)
    def _typed(self, event: TokenView.Typed) -> None:
        self.screen.query_one(Prompt).focus().insert(event.character)

    def _inspect(self) -> None:
        """About the tokens that have the cursor, else about those of the last answer that shows any."""
        views = [view for view in self.query(TokenView) if view.display]
        pointed = [view for view in views if view.cursor is not None]
        self.screen.query_one(Inspector).show(next(reversed(pointed or views), None))

    @on(TokenView.Pointed)
    def _pointed(self, event: TokenView.Pointed) -> None:
        self._inspect()
        if event.line is not None:
            line, shown = event.view.region.y + event.line, self.region
            self.scroll_relative(y=min(0, line - shown.y) or max(0, line - shown.bottom + 1), animate=False)

    @property
    def behind(self) -> bool:
        return any(isinstance(row, AnswerView) and row.behind for _, row in self._rows)

    def _items(self) -> Iterator[Node | Note]:
        for node in (self._conversation.session.root, *self._conversation.session.path):
            if node.parent:
                yield node
            yield from (note for note in self._conversation.notes if note.after is node)

    def _row(self, item: Node | Note) -> Row:
        if isinstance(item, Note):
            return NoteView(item)
        return AnswerView(item, self._conversation) if item.answer else UserMessage(item)
