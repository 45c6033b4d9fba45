"""The chat: drains the engine on a timer, draws the conversation, turns keys into what the conversation can do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Markdown, Tooltip

from localspec.attachments import attach
from localspec.chat.session import Node
from localspec.chat.text import visible
from localspec.commands import is_command, literal
from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.errors import LocalspecError, UsageError
from localspec.tui.copying import copy
from localspec.tui.export import export
from localspec.tui.screens.settings import Settings
from localspec.tui.slash import obey
from localspec.tui.widgets.composer import Composer
from localspec.tui.widgets.drawn import Drawn
from localspec.tui.widgets.inspector import Inspector
from localspec.tui.widgets.queue_view import QueueView
from localspec.tui.widgets.stats_line import StatsLine
from localspec.tui.widgets.stats_panel import StatsPanel
from localspec.tui.widgets.status_line import StatusLine
from localspec.tui.widgets.tail_hint import TailHint
from localspec.tui.widgets.title_line import TitleLine
from localspec.tui.widgets.transcript import Transcript

log = logging.getLogger(__name__)

DRAINS_PER_SECOND = 20
_FIGURES_EVERY = 4  # drains: numbers that change more often can't be read
_STYLES = sorted(Path(__file__).parent.parent.glob("widgets/*.tcss"))
_BUSY = "The answer is still being written. Esc stops it."


class ChatScreen(Settings):
    CSS_PATH: ClassVar = ["chat.tcss", *_STYLES]
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012
    AUTO_FOCUS = "Prompt"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "stop", "Stop the answer, or leave editing", id="chat.stop"),
        Binding("ctrl+r", "regenerate", "Answer again, beside this answer", id="chat.regenerate"),
        Binding("alt+left", "sibling(-1)", "The answer before this one", id="chat.older", priority=True),
        Binding("alt+right", "sibling(1)", "The answer after this one", id="chat.newer", priority=True),
        Binding("f3,ctrl+t", "next_method", "Switch the method, also in mid-answer", id="chat.method"),
        Binding("f4,ctrl+g", "next_length", "Change the draft length", id="chat.length"),
        Binding("f5", "tokens", "Who proposed each token", id="chat.tokens"),
        Binding("f6", "race", "Race: the last message with and without drafts", id="chat.race", priority=True),
        Binding("f9", "trace", "Save a trace of the last answer", id="chat.trace"),
        Binding("f7,ctrl+b", "flip_panel", "Show or hide the figures", id="chat.panel", priority=True),
        Binding("f8,ctrl+l", "reload", "Reload the model", id="chat.reload"),
        Binding("alt+s", "settings", "The sampling settings as a form", id="chat.settings"),
        Binding("ctrl+end", "to_the_end", "Go to the end of the conversation", id="chat.end", priority=True),
        Binding("alt+t", "thoughts", "Open or close what the model thought", id="chat.thoughts"),
        Binding("ctrl+s", "export", "Export the statistics", id="chat.export"),
        Binding("ctrl+y", "copy_answer", "Copy the last answer", id="chat.copy", priority=True),
        Binding(
            "ctrl+c", "interrupt", "Copy the selection, or stop the answer", id="chat.interrupt", priority=True
        ),
    ]

    def __init__(
        self, client: EngineClient, conversation: Conversation, folder: Path, keys: Mapping[str, str] | None = None
    ) -> None:
        """`keys` are the user's own, by the id of the binding."""
        super().__init__(client, conversation)
        self._folder = folder
        self._keys = keys or {}
        self._drains = 0
        self._drawing = asyncio.Lock()  # a timer runs beside the screen's messages, and both draw
        self.stale = False  # something is to be drawn
        self._reported: set[str] = set()

    def compose(self) -> ComposeResult:
        yield TitleLine(self.conversation)
        with Horizontal(id="body"):
            yield Transcript(self.conversation)
            yield StatsPanel(self.conversation)
        yield TailHint()
        yield Inspector()
        yield QueueView(self.conversation)
        yield StatsLine(self.conversation)
        yield Composer(self.conversation, self._keys)
        yield StatusLine(self.conversation)

    async def on_mount(self) -> None:
        # Textual reads tooltips as markup, and those of a table are the model's words.
        await self.query(Tooltip).remove()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        if self.conversation.engine:
            self.change(self.conversation.start)
        self.set_interval(1 / DRAINS_PER_SECOND, self.drain)

    def change(self, act: Callable[[], object]) -> None:
        """Do it now, draw it on the screen's own turn."""
        with self._guarded():
            act()
        self.call_later(self._draw_now)

    async def _draw_now(self) -> None:
        with self._guarded():
            await self.draw()

    # From the engine to the screen

    async def drain(self) -> None:
        """Take in everything that is pending, and draw it once."""
        with self._guarded():
            events = self._client.poll()
            for event in events:
                if not (self.race and self.race.fold(event)):
                    self.conversation.fold(event)
            self.conversation.keep()
            self._drains += 1
            self.stale = self.stale or bool(events)
            due = self._drains % _FIGURES_EVERY == 0
            if events or (due and self.stale):
                await self.draw(figures=due or not self.conversation.running)

    async def draw(self, *, figures: bool = True) -> None:
        """One at a time: two at once would mount the same row twice."""
        async with self._drawing:
            await self.query_one(Transcript).follow(figures=figures)
        self._give_back()
        if not figures:
            return
        self.stale = self.query_one(Transcript).behind
        self.query_one(StatsPanel).follow()
        for line in self.query(Drawn):
            line.follow()

    def _give_back(self) -> None:
        """Prompts that got no answer go back to the editor, before what was typed since."""
        while returned := self.conversation.take_returned():
            self.composer.give_back(returned.text, returned.instead_of)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """What is wrong with the world is said in the transcript; a bug is logged, and shown once."""
        try:
            yield
        except LocalspecError as error:
            self.conversation.say(error.message, error.hint, error=True)
            self.stale = True
        except Exception as error:
            if repr(error) not in self._reported:  # a bug in drawing comes again with every drain
                self._reported.add(repr(error))
                log.exception("bug in the chat")
                self.notify(visible(repr(error)), title="This is a bug", severity="error", markup=False, timeout=20)

    # From the user to the conversation

    @on(Composer.Sent)
    def _sent(self, event: Composer.Sent) -> None:
        chat, text, editing = self.conversation, event.text, event.instead_of
        if editing and chat.running:
            self.composer.give_back(text, editing)
            self._hint(_BUSY)
            return
        self.query_one(Transcript).to_the_end()
        if is_command(text):
            self.change(partial(obey, self, text))
        elif not text.strip():
            self.change(chat.resume)
        elif (message := self._attached(text, editing)) and editing:
            self.change(partial(chat.edit, editing, message))
        elif message:
            self.change(partial(chat.submit, message))

    def _attached(self, text: str, editing: Node | None) -> str:
        """The message with its files; empty where one can't be attached, and the text is back in the editor."""
        try:
            return attach(literal(text), Path.cwd())
        except LocalspecError as error:
            self.composer.give_back(text, editing)
            self.notify(f"{error.message}\n{error.hint}".strip(), severity="warning", markup=False, timeout=8)
            return ""

    @on(Markdown.LinkClicked)
    def _link(self, event: Markdown.LinkClicked) -> None:
        """The model may write any link: only those for a browser are followed."""
        if event.href.startswith(("https://", "http://")):
            self.app.open_url(event.href)

    def on_click(self) -> None:
        self.composer.prompt.focus()

    @property
    def composer(self) -> Composer:
        return self.query_one(Composer)

    def action_stop(self) -> None:
        if self.composer.editing:
            self.composer.leave()
        elif self.conversation.running:
            self.change(self.conversation.stop)
        elif self.has_class("-flipped"):
            self.action_flip_panel()

    def action_regenerate(self) -> None:
        chat = self.conversation
        if chat.running:
            self._hint(_BUSY)
        elif not chat.session.path:
            self._hint("There is no answer yet.")
        elif not chat.methods:
            self._hint("No model is loaded.")
        else:
            sampling = chat.options.sampling
            if sampling.greedy or sampling.seed is not None:
                self._hint("The seed is fixed, or the temperature is 0: expect the same text again.")
            self.change(chat.regenerate)

    def action_sibling(self, step: int, node_id: int | None = None) -> None:
        """Show a neighbour of the given message, else of the last one that has any."""
        chat = self.conversation
        with_siblings = [node for node in chat.session.path if len(node.siblings) > 1]
        nodes = [node for node in with_siblings if node_id in (None, node.id)]
        if chat.running:
            self._hint(_BUSY)
        elif nodes:
            self.change(partial(chat.step, nodes[-1], step))

    def action_reload(self) -> None:
        self.change(self.conversation.start)

    def action_flip_panel(self) -> None:
        self.toggle_class("-flipped")
        self.call_after_refresh(self._draw_now)

    def action_export(self) -> None:
        with self._guarded():
            try:
                self.export()
            except UsageError as error:
                self._refuse(error)

    def export(self, argument: str = "") -> None:
        """What `/export` and its argument stand for."""
        export(self.app, self.conversation, self._folder, argument)

    def action_copy_answer(self) -> None:
        copy(self.app, self.conversation)

    def action_to_the_end(self) -> None:
        self.query_one(Transcript).to_the_end()
        self.call_later(self._draw_now)

    def action_thoughts(self) -> None:
        self.query_one(Transcript).flip_thoughts()

    def action_interrupt(self) -> None:
        selected = self.get_selected_text() or self.composer.prompt.selected_text
        if selected:
            self.app.copy_to_clipboard(selected)
        elif self.conversation.running:
            self.action_stop()
        else:
            self._hint("Ctrl+Q quits.")

    def action_scroll(self, pages: int) -> None:
        panel, transcript = self.query_one(StatsPanel), self.query_one(Transcript)
        target = transcript if transcript.display else panel
        target.scroll_page_up() if pages < 0 else target.scroll_page_down()
