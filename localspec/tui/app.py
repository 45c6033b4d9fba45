"""The Textual application: themes, keys, palette. No logic: the chat's is in conversation/."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from localspec.chat.keeper import Keeper
from localspec.conversation import Conversation, Full, Options
from localspec.engine.client import EngineClient
from localspec.engine.messages import Load
from localspec.errors import LocalspecError, UnknownName
from localspec.tui.keymap import shown
from localspec.tui.model_actions import ModelActions
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.full import FullScreen
from localspec.tui.screens.help import HelpScreen, own_bindings
from localspec.tui.screens.sessions import SessionsScreen
from localspec.tui.supply import Supply
from localspec.tui.theme import DARK, THEMES
from localspec.tui.widgets.transcript import Transcript

_LOOKS_S = 0.25  # between two looks at whether the context is full


class ChatApp(ModelActions):
    TITLE = "localspec"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1,ctrl+underscore", "help", "Help", id="app.help", priority=True),
        Binding("ctrl+p", "command_palette", "Every command, and the theme", id="app.palette", priority=True),
        Binding("ctrl+o", "sessions", "Earlier sessions, and a search through them", id="app.sessions"),
        Binding("ctrl+n", "new_session", "Begin a new session", id="app.new_session"),
        Binding("ctrl+q", "quit", "Quit", id="app.quit", priority=True),
    ]

    def __init__(  # noqa: PLR0913
        self,
        client: EngineClient,
        load: Load | None,
        options: Options,
        *,
        folder: Path | None = None,
        theme: str | None = None,
        keeper: Keeper | None = None,
        keys: Mapping[str, str] | None = None,
        thoughts: bool = True,
        supply: Supply | None = None,
    ) -> None:
        """`folder` is where exports go (None: the current one), `theme` the one to begin with, `keeper` keeps the
        sessions (None: for this run only), `keys` are the user's own by the id of a binding (tui/keymap.py),
        `thoughts`: whether they are drawn while a model thinks. Without `load` it begins with a welcome."""
        super().__init__(supply)
        self.conversation = Conversation(client, load, options, keeper)
        self.folder = folder or Path.cwd()
        self.client = client
        self._asked_about: Full | None = None
        self.keys = dict(keys or {})
        self._thoughts = thoughts
        for own in THEMES:
            self.register_theme(own)
        self._wanted_theme = theme or os.environ.get("TEXTUAL_THEME") or DARK.name
        if self._wanted_theme not in self.available_themes:
            raise UnknownName("theme", self._wanted_theme, self.available_themes)

    def on_mount(self) -> None:
        self.set_keymap(self.keys)
        self.theme = self._wanted_theme
        self.set_interval(_LOOKS_S, self._ask_about_room)
        chat = ChatScreen(self.client, self.conversation, self.folder, self.keys)
        self.push_screen(chat.set_class(not self._thoughts, "-no-thoughts"))
        self.welcome()

    def on_unmount(self) -> None:
        self.client.close()

    def action_sessions(self) -> None:
        if isinstance(self.screen, ChatScreen):
            self.push_screen(SessionsScreen(self.conversation), self._take_up)

    def action_new_session(self) -> None:
        if isinstance(self.screen, ChatScreen):
            self._do(self.conversation.new_session)

    def _ask_about_room(self) -> None:
        full = self.conversation.full
        if full and full is not self._asked_about and isinstance(self.screen, ChatScreen):
            self._asked_about = full
            self.push_screen(FullScreen(self.conversation, full), lambda act: self._do(act) if act else None)

    def _do(self, act: Callable[[], None]) -> None:
        try:
            act()
        except LocalspecError as error:
            self.notify(f"{error.message} {error.hint}".strip(), severity="error", markup=False)
        self._take_up(True)

    def _take_up(self, switched: bool | None) -> None:
        """Perhaps another session is open now: an edit of the former one's is over."""
        if isinstance(chat := self.screen, ChatScreen):
            chat.stale = True
            if switched:
                chat.composer.edit(None)
                chat.query_one(Transcript).anchor()

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            inmost = self.screen.focused or self.screen
            self.push_screen(HelpScreen(inmost.ancestors_with_self, self.keys))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        for binding in own_bindings(type(screen)):
            keys = shown(self.keys.get(binding.id or "", binding.key))
            yield SystemCommand(binding.description, keys, partial(screen.run_action, binding.action))
        yield SystemCommand("Help", "Keys, commands and figures", self.action_help)
