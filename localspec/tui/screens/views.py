"""What a chat can show of its speculation, as actions of the chat's screen: tokens, race, trace."""

from __future__ import annotations

from pathlib import Path

from textual.screen import Screen

from localspec.chat.text import visible
from localspec.commands.files import save_trace
from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.errors import LocalspecError
from localspec.race import Race, race
from localspec.tui.screens.race import RaceScreen
from localspec.tui.widgets.transcript import Transcript


class Views(Screen[None]):
    _folder: Path  # where files go

    def __init__(self, client: EngineClient, conversation: Conversation) -> None:
        super().__init__()
        self.conversation = conversation
        self.race: Race | None = None  # the last one: it hears of its own events only
        self._client = client

    def action_tokens(self, node_id: int | None = None) -> None:
        self.query_one(Transcript).flip_tokens(node_id)

    def action_race(self) -> None:
        try:
            self.race = race(self.conversation, self._client)
        except LocalspecError as error:
            self._refuse(error)
        else:
            self.app.push_screen(RaceScreen(self.race))

    def action_trace(self) -> None:
        try:
            path = save_trace(self.conversation, self._folder)
        except LocalspecError as error:
            self._refuse(error)
        else:
            said = f"{visible(str(path))}\nlocalspec replay shows it. It holds question and answer."
            self.notify(said, title="Trace saved", markup=False, timeout=10)

    def _refuse(self, error: LocalspecError) -> None:
        self._hint(f"{error.message} {error.hint}".strip())

    def _hint(self, text: str) -> None:
        self.notify(text, markup=False, timeout=4)
