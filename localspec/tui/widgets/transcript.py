"""The active path of the conversation with its notes, oldest first. Follows the tail while the user is there."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TypeAlias

from textual.app import ComposeResult
from textual.containers import Vertical, VerticalScroll

from localspec.chat.session import Node
from localspec.conversation import Conversation, Note
from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.note_view import NoteView
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
        for _, row in self._rows:
            if isinstance(row, AnswerView):
                await row.follow(figures=figures)

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
