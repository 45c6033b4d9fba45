"""F2: what there is to load. Pairs of the catalogue, files that are here, downloads; Enter goes on to the drafts."""

from __future__ import annotations

import asyncio
from typing import ClassVar, Literal, TypeAlias

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from localspec import catalog
from localspec.chat.text import visible
from localspec.errors import LocalspecError
from localspec.opening import Choice
from localspec.shelf import choosing
from localspec.shelf.choosing import Row, Shelf
from localspec.shelf.fetching import Download
from localspec.tui import model_rows
from localspec.tui.screens.drafts import DraftsScreen
from localspec.tui.screens.plan import PlanScreen
from localspec.tui.supply import Supply

Tab: TypeAlias = Literal["pairs", "files", "downloads"]
_TABS: dict[Tab, str] = {"pairs": "pairs", "files": "this computer", "downloads": "downloads"}
_DRAWS_S = 0.2  # numbers that change more often can't be read
_PAGE = 8
_KEYS = {
    "pairs": "Enter chooses, or fetches what is not here · Tab other list · Esc back",
    "files": "Enter chooses · Tab other list · Esc back",
    "downloads": "C stops, Enter goes on · Esc back: downloads go on",
}
_NOTHING: dict[Tab, str] = {
    "pairs": "No pair has these words.",
    "files": "No GGUF file was found here. Type the path of one, or name its folder in model_dirs (docs/models.md).",
    "downloads": "Nothing was fetched yet. Enter on a pair that is not here fetches it.",
}


class ModelsScreen(Screen[Choice | None]):
    """Dismissed with what to load; None: go on with what there is."""

    CSS_PATH = "models.tcss"
    AUTO_FOCUS = "Input"
    VERTICAL_BREAKPOINTS = [(0, "-low"), (20, "-high")]  # noqa: RUF012
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2", "leave", "Back; downloads go on", id="models.leave", priority=True),
        Binding("up", "move(-1)", "The row above", id="models.up", priority=True),
        Binding("down", "move(1)", "The row below", id="models.down", priority=True),
        Binding("pageup", "page(-1)", "A page up", id="models.page_up", priority=True),
        Binding("pagedown", "page(1)", "A page down", id="models.page_down", priority=True),
        Binding("tab", "turn(1)", "Pairs, files, downloads", id="models.next", priority=True),
        Binding("shift+tab", "turn(-1)", "The list before", id="models.previous", priority=True),
        Binding("c,delete", "stop", "Stop the download; what has arrived is kept", id="models.stop"),
    ]

    def __init__(self, supply: Supply, *, tab: Tab = "pairs", at: str = "", loaded: str | None = None) -> None:
        """`at` is the key of the row to begin with, `loaded` the path of what is loaded now."""
        super().__init__()
        self._supply, self._tab, self._loaded = supply, tab, loaded
        self._at: dict[Tab, str] = {tab: at}
        self._shelf: Shelf | None = None
        self._rows: list[Row] = []
        self._keys: list[str] = []  # of the rows that are drawn
        self._seen: object = None

    def compose(self) -> ComposeResult:
        yield Static(id="title")
        yield Input(placeholder="Type to filter, or the path of a GGUF file", id="words")
        yield Static(id="head")
        yield OptionList(id="list", markup=False)
        yield Static(id="about")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self._look()
        self.set_interval(_DRAWS_S, self._follow)

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    # What there is

    @work(exclusive=True, exit_on_error=False)
    async def _look(self) -> None:
        await self._look_through()

    async def _look_through(self) -> None:
        try:
            self._shelf = await asyncio.to_thread(choosing.shelf, self._supply.folders, self._supply.n_ctx)
        except LocalspecError as error:
            self._say(error)
        self.draw()

    def _follow(self) -> None:
        """Draw again when a download went on; look again when one is complete."""
        seen = [(each.pair.name, each.state, each.bars) for each in self._supply.downloads]
        if seen == self._seen:
            return
        was, self._seen = self._seen, seen
        states = {name: state for name, state, _ in was} if isinstance(was, list) else {}
        if any(state == "whole" and states.get(name) not in (None, "whole") for name, state, _ in seen):
            self._look()
        self.draw()

    def _found(self) -> list[Row]:
        if self._shelf is None or self._tab == "downloads":
            return []
        words = self.query_one(Input).value
        rows = choosing.matching(self._shelf.pairs if self._tab == "pairs" else self._shelf.files, words)
        own = choosing.typed(words, self._shelf.here, self._supply.n_ctx)
        return [own, *rows] if own else rows

    # Drawing

    def draw(self) -> None:
        options = self.query_one(OptionList)
        width = options.scrollable_content_region.width - 2
        if width <= 0:
            return
        self._rows = self._found()
        downloads = list(self._supply.downloads)
        if self._tab == "downloads":
            drawn = {each.pair.name: model_rows.download(each, width) for each in downloads}
        else:
            drawn = {row.key: self._drawn(row, width) for row in self._rows}
        self._fill(options, drawn)
        first = {"pairs": "PAIR", "files": "FILE"}.get(self._tab, "")
        self.query_one("#head", Static).update(model_rows.head(width, first) if first else "")
        self.query_one("#title", Static).update(self._title())
        self.query_one(Input).display = self._tab != "downloads"
        self._explain()

    def _fill(self, options: OptionList, drawn: dict[str, Content]) -> None:
        """The cursor stays on its row, wherever that is now; it begins on what is loaded."""
        loaded = (row.key for row in self._rows if row.path and row.path == self._loaded)
        keys, at = list(drawn), self._at.get(self._tab) or next(loaded, "")
        with options.prevent(OptionList.OptionHighlighted):
            options.set_options(Option(content) for content in drawn.values())
            options.highlighted = keys.index(at) if at in keys else 0 if keys else None
        if keys:
            self._at[self._tab] = at if at in keys else keys[0]
        self._keys = keys

    def _drawn(self, row: Row, width: int) -> Content:
        running = self._supply.downloads.get(row.key) if row.pair else None
        return model_rows.row(row, width, model_rows.here(row, running, self._loaded))

    def _title(self) -> Content:
        running = sum(1 for each in self._supply.downloads if each.is_running)
        parts = [Content.styled(" Models ", "bold $primary")]
        for tab, name in _TABS.items():
            label = f"{name} ({running})" if tab == "downloads" and running else name
            if tab == self._tab:
                parts.append(Content.assemble("  ", (label, "bold underline")))
            else:
                parts.append(Content.from_markup(f"  [@click=screen.show('{tab}')]$label[/]", label=label))
        memory = self._shelf.memory if self._shelf else "looking ..."
        left = Content("").join(parts)
        room = self.size.width - left.cell_length - 3
        if room >= len(memory):
            left = left.pad_right(room - len(memory) + 2).append(Content.styled(memory, "$foreground-muted"))
        return left

    def _explain(self) -> None:
        """About the row under the cursor: what it is, and why it fits or not."""
        row, download = self._chosen
        if row:
            lines = [row.mark.why, row.about]
        elif download and download.planned:
            lines = [f"Into {download.planned.plan.cache}", *download.planned.plan.notes]
        else:
            lines = ["" if self._shelf is None or download else _NOTHING[self._tab]]
        self.query_one("#about", Static).update(Content("\n").join(Content(visible(line)) for line in lines))
        self.query_one("#keys", Static).update(Content.styled(_KEYS[self._tab], "$foreground-muted"))

    # What is chosen

    @property
    def _chosen(self) -> tuple[Row | None, Download | None]:
        key = self._at.get(self._tab, "")
        if self._tab == "downloads":
            return None, self._supply.downloads.get(key)
        return next((row for row in self._rows if row.key == key), None), None

    @on(OptionList.OptionHighlighted)
    def _moved(self, event: OptionList.OptionHighlighted) -> None:
        if event.option_index < len(self._keys):
            self._at[self._tab] = self._keys[event.option_index]
            self._explain()

    @on(Input.Changed)
    def _typed(self) -> None:
        self._at.pop(self._tab, None)
        self.draw()

    @on(Input.Submitted)
    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        row, download = self._chosen
        if row:
            self._take(row)
        elif download and download.state == "whole":
            self._go_to(download.pair.name)
        elif download:
            download.begin()

    def _take(self, row: Row) -> None:
        running = self._supply.downloads.get(row.key) if row.pair else None
        if running and running.is_running:
            self.action_show("downloads")
        elif row.is_loadable:
            self.app.push_screen(DraftsScreen(row, self._supply.folders), lambda made: self._drafted(row, made))
        elif row.pair and row.pair.target.repo:
            self._fetch(row)
        else:
            self._refuse(row)

    def _drafted(self, row: Row, made: Choice | Literal["fetch"] | None) -> None:
        if made == "fetch":
            self._fetch(row)
        elif made:
            self.dismiss(made)

    def _fetch(self, row: Row) -> None:
        assert row.pair is not None, "only pairs are fetched"
        download = self._supply.downloads.of(row.pair)

        def settled(wanted: bool | None) -> None:
            if wanted:
                download.begin()
                self._at["downloads"] = download.pair.name
                self.action_show("downloads")
            else:
                download.cancel()
                self._supply.downloads.forget(download)

        self.app.push_screen(PlanScreen(download, row), settled)

    def _refuse(self, row: Row) -> None:
        try:
            if row.pair:
                catalog.resolve(row.pair)
        except LocalspecError as error:
            self._say(error)
        else:
            self.notify(visible(row.mark.why), severity="warning", markup=False)

    @work(exclusive=True, exit_on_error=False)
    async def _go_to(self, name: str) -> None:
        """A pair that was fetched just now: the list may not know yet that it is here."""
        await self._look_through()
        with self.query_one(Input).prevent(Input.Changed):
            self.query_one(Input).value = ""
        self._at["pairs"] = name
        self.action_show("pairs")
        self._open()

    # Keys

    def action_show(self, tab: Tab) -> None:
        self._tab = tab
        self.draw()
        self.query_one(OptionList if tab == "downloads" else Input).focus()

    def action_turn(self, step: int) -> None:
        tabs = list(_TABS)
        self.action_show(tabs[(tabs.index(self._tab) + step) % len(tabs)])

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        (options.action_cursor_up if step < 0 else options.action_cursor_down)()

    def action_page(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self._keys:
            options.highlighted = min(max(0, (options.highlighted or 0) + step * _PAGE), len(self._keys) - 1)

    def action_stop(self) -> None:
        _, download = self._chosen
        if download:
            download.cancel()

    def action_leave(self) -> None:
        self.dismiss(None)

    def _say(self, error: LocalspecError) -> None:
        self.notify(visible(f"{error.message} {error.hint}".strip()), severity="warning", markup=False, timeout=10)
