"""The first start, before there is a model: what this is, and three ways to get one."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localspec import catalog
from localspec.chat.text import one_line, visible
from localspec.errors import LocalspecError
from localspec.fit.plan import size
from localspec.opening import Choice
from localspec.shelf import choosing
from localspec.shelf.choosing import Suggestion
from localspec.tui.screens.models import ModelsScreen, Tab
from localspec.tui.supply import Supply

_WHAT = (
    "localspec is a chat with a language model that runs on this computer and nowhere else. A drafter guesses a few "
    "tokens ahead and the model checks them all at once: the text is the model's own, and often comes faster."
)


class FirstScreen(Screen[Choice | None]):
    """Dismissed with what to load; None: a chat without a model."""

    CSS_PATH = "first.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "To the chat, without a model", id="first.leave"),
    ]

    def __init__(self, supply: Supply) -> None:
        super().__init__()
        self._supply = supply
        self._suggested: Suggestion | None = None
        self._demo = catalog.load_pairs()[catalog.DEFAULT]

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Welcome"
            yield Static(_WHAT)
            yield OptionList(markup=False)

    def on_mount(self) -> None:
        self._draw("looking at this machine ...")
        self._look()

    @work(exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        try:
            found = await asyncio.to_thread(choosing.shelf, self._supply.folders, self._supply.n_ctx)
        except LocalspecError as error:
            self._draw(visible(error.message))
            return
        asked = [row for row in found.pairs if row.key == self._supply.asked != catalog.DEFAULT]
        self._suggested = Suggestion(asked[0], "you asked for it") if asked else choosing.suggestion(found)
        self._draw(self._suggestion())

    def _suggestion(self) -> str:
        if self._suggested is None:
            return "none is small enough for what is free now"
        row, why = self._suggested.row, self._suggested.why
        title = one_line(row.pair.title if row.pair else row.name, 40)
        return f"{title}, {size(row.size)}: {why}"

    def _draw(self, suggested: str) -> None:
        demo = self._demo
        here = catalog.seek(demo.target) is not None
        small = f"{one_line(demo.title, 40)}, {size(demo.target.size or 0)}" if here else _command(demo)
        rows = (
            ("Try the small demo model now", small),
            ("Choose a pair that fits", suggested),
            ("Open a GGUF file", "that is here already"),
        )
        options = self.query_one(OptionList)
        at = options.highlighted
        options.set_options(
            Option(Content.assemble((title, "bold"), "\n", ("  " + said, "$foreground-muted")))
            for title, said in rows
        )
        options.highlighted = at or 0
        options.focus()

    @on(OptionList.OptionSelected)
    def _selected(self, event: OptionList.OptionSelected) -> None:
        (self._try_demo, self._choose_pair, self._open_file)[event.option_index]()

    def _try_demo(self) -> None:
        if catalog.seek(self._demo.target):
            self.dismiss(Choice(self._demo.name))
        else:
            self.notify(_command(self._demo), severity="warning", markup=False, timeout=10)

    def _choose_pair(self) -> None:
        self._show("pairs", self._suggested.row.key if self._suggested else "")

    def _open_file(self) -> None:
        self._show("files")

    def _show(self, tab: Tab, at: str = "") -> None:
        self.app.push_screen(ModelsScreen(self._supply, tab=tab, at=at), self._chosen)

    def _chosen(self, choice: Choice | None) -> None:
        if choice:
            self.dismiss(choice)

    def action_leave(self) -> None:
        self.dismiss(None)


def _command(pair: catalog.Pair) -> str:
    """How to get a pair that comes as a Python package."""
    try:
        catalog.locate(pair.target, pair.name)
    except LocalspecError as error:
        return f"{error.hint}, then start again"
    return ""
