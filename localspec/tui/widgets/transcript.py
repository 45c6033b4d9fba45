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
from localspec.conversation.alternatives import missing
from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.earlier_row import EarlierRow
from localspec.tui.widgets.inspector import Inspector
from localspec.tui.widgets.note_view import NoteView
from localspec.tui.widgets.prompt import Prompt
from localspec.tui.widgets.tail_hint import TailHint
from localspec.tui.widgets.token_view import TokenView
from localspec.tui.widgets.user_message import UserMessage
from localspec.tui.widgets.welcome import Welcome

MOST_ROWS, _SLACK = 40, 20  # rows go in lots, not one by one
Row: TypeAlias = AnswerView | UserMessage | NoteView


class Transcript(VerticalScroll, can_focus=False):
    """Draws what the conversation says. The rows that are the same stay: an edit, another answer or a sibling
    changes only what comes after it."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self._conversation = conversation
        self._rows: list[tuple[Node | Note, Row]] = []  # of the items from `_start` on
        self._start, self._most = 0, MOST_ROWS
        self._height, self._below = 0, False  # of the text; whether some of it came unseen

    def compose(self) -> ComposeResult:
        with Vertical(id="rows"):
            yield Welcome(self._conversation)
            yield EarlierRow()

    def on_mount(self) -> None:
        self._conversation.watched = False
        self.anchor()

    async def follow(self, *, figures: bool) -> None:
        items = list(self._items())
        await self._show(items, self._where_to_begin(items))
        for _, row in self._rows:
            if isinstance(row, AnswerView):
                await row.follow(figures=figures)
        self._hint_at_new_text()
        if figures:
            self._inspect()

    def _where_to_begin(self, items: list[Node | Note]) -> int:
        """Long transcripts have rows for their end only: each costs something with every layout. Rows go while the
        user is at the end, so that nothing moves that somebody reads."""
        last = max(0, len(items) - self._most)
        if self._rows and (self._start >= len(items) or items[self._start] is not self._rows[0][0]):
            return last
        too_many = len(items) - self._start > self._most + _SLACK
        return last if too_many and self._following else self._start

    async def _show(self, items: list[Node | Note], start: int) -> None:
        """Have a row for each item from `start` on. Those that are there stay."""
        wanted, self._start = items[start:], start
        while self._rows and self._rows[0][0] not in wanted:
            await self._rows.pop(0)[1].remove()
        known = wanted.index(self._rows[0][0]) if self._rows else 0
        pairs = zip(wanted[known:], self._rows, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1][0], pairs))
        for _, row in self._rows[same:]:
            await row.remove()
        before = [(item, self._row(item)) for item in wanted[:known]]
        after = [(item, self._row(item)) for item in wanted[known + same :]]
        self._rows = [*before, *self._rows[:same], *after]
        earlier = self.query_one(EarlierRow)
        earlier.show(sum(1 for item in items[:start] if isinstance(item, Node)))
        if before:
            await self.query_one("#rows").mount_all((row for _, row in before), after=earlier)
        if after:
            await self.query_one("#rows").mount_all(row for _, row in after)
        if self.has_class("-tokens"):
            self._show_tokens(True, [row for _, row in (*before, *after)])

    @on(EarlierRow.Wanted)
    async def _show_earlier(self) -> None:
        """Some more rows, with what is on the screen kept in its place."""
        self._most += MOST_ROWS
        below = self.virtual_size.height - self.scroll_y
        self.release_anchor()
        await self._show(list(self._items()), max(0, self._start - MOST_ROWS))
        for _, row in self._rows:
            if isinstance(row, AnswerView):
                await row.follow(figures=True)
        self.call_after_refresh(lambda: self.scroll_to(y=self.virtual_size.height - below, animate=False))

    def to_the_end(self) -> None:
        self._most = MOST_ROWS
        self.scroll_end(animate=False)
        self.anchor()

    @property
    def _following(self) -> bool:
        return self.is_vertical_scroll_end

    def _hint_at_new_text(self) -> None:
        """Say so where text comes below what the user looks at."""
        grown = self.virtual_size.height > self._height
        self._height = self.virtual_size.height
        self._below = not self._following and (self._below or grown)
        self.screen.query_one(TailHint).display = self._below

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
            self._conversation.watched = shown
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
        view = next(reversed(pointed or views), None)
        self.screen.query_one(Inspector).show(view, missing(self._conversation, view.node) if view else "")

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
