"""What a chat can show of its speculation, as actions of the chat's screen: tokens, race."""

from __future__ import annotations

from textual.screen import Screen

from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.errors import UsageError
from localspec.race import Race, race
from localspec.tui.screens.race import RaceScreen
from localspec.tui.widgets.transcript import Transcript


class Views(Screen[None]):
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
        except UsageError as error:
            self._hint(f"{error.message} {error.hint}".strip())
        else:
            self.app.push_screen(RaceScreen(self.race))

    def _hint(self, text: str) -> None:
        self.notify(text, markup=False, timeout=4)
