"""What the application does about models: the screen to choose one, the first start, and downloads that go on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from localspec.chat.text import visible
from localspec.conversation import Conversation
from localspec.engine.messages import Ready
from localspec.errors import LocalspecError
from localspec.opening import Choice, named
from localspec.shelf.fetching import Download
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.first import FirstScreen
from localspec.tui.screens.models import ModelsScreen
from localspec.tui.supply import Supply

_POLLS_S = 0.2


class ModelActions(App[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2,alt+m", "models", "Choose another model, or fetch one", id="app.models"),
    ]
    conversation: Conversation

    def __init__(self, supply: Supply | None) -> None:
        """Without `supply` there is only the model that the chat began with."""
        super().__init__()
        self.supply = supply

    def on_mount(self) -> None:
        self.set_interval(_POLLS_S, self._poll_downloads)

    def on_unmount(self) -> None:
        if self.supply:
            self.supply.downloads.close()

    def welcome(self) -> None:
        """Where no model is chosen yet."""
        if self.supply and self.conversation.engine is None:
            self.push_screen(FirstScreen(self.supply), self._switch)

    def action_models(self) -> None:
        if self.supply is None:
            self.notify("This chat has one model only.", markup=False)
        elif isinstance(self.screen, ChatScreen):
            engine = self.conversation.engine
            loaded = engine.target.path if isinstance(engine, Ready) else None
            self.push_screen(ModelsScreen(self.supply, loaded=loaded), self._switch)

    def action_load(self, name: str) -> None:
        """`/model` with the name of a pair, or the path of a file."""
        if self.supply is None:
            self.action_models()
            return
        try:
            self._switch(named(name))
        except LocalspecError as error:
            self._refuse(error)

    def _switch(self, choice: Choice | None) -> None:
        if choice is None or self.supply is None:
            return
        try:
            self.conversation.switch_model(*self.supply.chosen(choice))
        except LocalspecError as error:
            self._refuse(error)
        if isinstance(chat := self.screen, ChatScreen):
            chat.stale = True

    def _refuse(self, error: LocalspecError) -> None:
        said = visible(f"{error.message} {error.hint}".strip())
        self.notify(said, severity="error", markup=False, timeout=10)

    def _poll_downloads(self) -> None:
        for download in self.supply.downloads.poll() if self.supply else ():
            if isinstance(self.screen, ChatScreen):
                self._tell(download)

    def _tell(self, download: Download) -> None:
        """In the chat the end of a download would go by unseen."""
        title = visible(download.pair.title)
        if download.state == "whole":
            self.notify(f"{title} is here. F2 loads it.", markup=False, timeout=10)
        elif download.state == "failed" and download.error:
            said = visible(f"{download.error.message} {download.error.hint}".strip())
            self.notify(said, title=f"{title} could not be fetched", severity="error", markup=False, timeout=10)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        yield from super().get_system_commands(screen)
        yield SystemCommand("Choose another model, or fetch one", "F2", self.action_models)
