"""Ctrl+O: every session that is kept. Typing searches the messages of all of them; Enter opens what is chosen."""

from __future__ import annotations

from collections.abc import Callable
from time import time
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from localspec.chat.text import visible
from localspec.conversation import Conversation, Hit, Row
from localspec.errors import LocalspecError
from localspec.tui.session_rows import hit, row

_PAGE = 10
_SHOWN = 200  # rows that the list draws; searching finds the others
_KEYS = "Enter opens · Ctrl+R renames · Del deletes · Ctrl+N begins a new one · Esc back"
_NAMING = "Enter names it so · an empty title is its first message · Esc leaves it as it was"


class SessionsScreen(Screen[bool]):
    """Dismissed with whether another session is open now."""

    CSS_PATH = "sessions.tcss"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+o", "leave", "Back to the chat", id="sessions.leave", priority=True),
        Binding("up", "move(-1)", "The session above", id="sessions.up", priority=True),
        Binding("down", "move(1)", "The session below", id="sessions.down", priority=True),
        Binding("pageup", "page(-1)", "A page up", id="sessions.page_up", priority=True),
        Binding("pagedown", "page(1)", "A page down", id="sessions.page_down", priority=True),
        Binding("ctrl+r", "rename", "Rename this session", id="sessions.rename", priority=True),
        Binding("delete,ctrl+x", "delete", "Delete this session: press twice", id="sessions.delete", priority=True),
        Binding("ctrl+n", "new", "Begin a new session", id="sessions.new", priority=True),
    ]

    def __init__(self, conversation: Conversation, clock: Callable[[], float] = time) -> None:
        super().__init__()
        self._conversation = conversation
        self._clock = clock
        self._rows: list[Row] = []
        self._found: list[Row | Hit] = []
        self._naming: str | None = None  # id of the session that gets another title
        self._doomed: str | None = None  # id of the one that the next press deletes
        self._looked_for = ""

    def compose(self) -> ComposeResult:
        yield Static(Content.styled(" Sessions", "bold $primary"), id="title")
        yield Input(placeholder="Type to search all messages", id="words")
        yield OptionList(id="list", markup=False)
        yield Static(id="keys")

    def on_mount(self) -> None:
        self._list()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    # What is listed

    def _list(self) -> None:
        """Ask the store anew."""
        words = self._looked_for
        try:
            self._rows = self._conversation.sessions()
            hits = self._conversation.search(words) if words else []
        except LocalspecError as error:
            self._say(error)
            return
        titled = [each for each in self._rows if words.casefold() in each.title.casefold()]
        self._found = [*titled[:_SHOWN], *hits]
        self._draw()

    def _draw(self) -> None:
        options = self.query_one(OptionList)
        place, width = options.highlighted, options.scrollable_content_region.width - 2
        if width <= 0:
            return
        now = self._clock()
        options.set_options(Option(self._drawn(each, width, now)) for each in self._found)
        options.highlighted = min(place or 0, len(self._found) - 1) if self._found else None
        self.query_one("#keys", Static).update(Content.styled(self._foot(), "$foreground-muted"))

    def _drawn(self, each: Row | Hit, width: int, now: float) -> Content:
        if isinstance(each, Hit):
            return hit(each, width, now, self._looked_for)
        doomed, here = each.id == self._doomed, each.id == self._conversation.session.id
        return row(each, width, now, mark="Del again deletes it" if doomed else "open" if here else "")

    def _foot(self) -> str:
        if self._naming:
            return _NAMING
        if not self._found:
            return "Nothing was said with these words." if self._looked_for else "Nothing is kept yet. Esc back"
        more = len(self._rows) - _SHOWN
        return _KEYS + (f" · {more:,} older ones: search finds them" if more > 0 and not self._looked_for else "")

    @property
    def _chosen(self) -> Row | Hit | None:
        place = self.query_one(OptionList).highlighted
        return self._found[place] if place is not None and place < len(self._found) else None

    @property
    def _chosen_id(self) -> str | None:
        chosen = self._chosen
        return chosen.session if isinstance(chosen, Hit) else chosen.id if chosen else None

    # Keys

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        if self._naming is None and event.value.strip() != self._looked_for:
            self._looked_for, self._doomed = event.value.strip(), None
            self.query_one(OptionList).highlighted = None
            self._list()

    @on(Input.Submitted)
    def _entered(self) -> None:
        if self._naming is not None:
            self._rename(self.query_one(Input).value)
        else:
            self._open()

    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        if id := self._chosen_id:
            self._try(lambda: self._conversation.open_session(id), leave=True)

    def action_new(self) -> None:
        self._try(self._conversation.new_session, leave=True)

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_up if step < 0 else options.action_cursor_down)()
        self._spare()

    def action_page(self, step: int) -> None:
        if self._found:
            options = self.query_one(OptionList)
            options.highlighted = min(max(0, (options.highlighted or 0) + step * _PAGE), len(self._found) - 1)
        self._spare()

    def action_delete(self) -> None:
        id = self._chosen_id
        if id is None or self._naming is not None:
            return
        if self._doomed != id:
            self._doomed = id
            self._draw()
            return
        self._doomed = None
        self._try(lambda: self._conversation.delete(id))
        self._list()

    def action_rename(self) -> None:
        if (id := self._chosen_id) and self._naming is None:
            self._naming = id
            title = next((each.title for each in self._rows if each.id == id), "")
            self._ask("New title", title)

    def action_leave(self) -> None:
        if self._naming is not None:
            self._named()
        else:
            self.dismiss(False)

    def _rename(self, title: str) -> None:
        id = self._naming or ""
        self._try(lambda: self._conversation.rename_session(id, title))
        self._named()

    def _named(self) -> None:
        self._naming = None
        self._ask("", self._looked_for)
        self._list()

    def _ask(self, what: str, value: str) -> None:
        words = self.query_one(Input)
        words.border_title = what
        with words.prevent(Input.Changed):
            words.value = visible(value)
        words.cursor_position = len(words.value)
        self._draw()

    def _spare(self) -> None:
        if self._doomed:
            self._doomed = None
            self._draw()

    def _try(self, act: Callable[[], None], *, leave: bool = False) -> None:
        try:
            act()
        except LocalspecError as error:
            self._say(error)
        else:
            if leave:
                self.dismiss(True)

    def _say(self, error: LocalspecError) -> None:
        self.notify(visible(f"{error.message} {error.hint}".strip()), severity="error", markup=False)
