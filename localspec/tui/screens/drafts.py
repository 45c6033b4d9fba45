"""The second step of choosing a model: what drafts for it. Each file has its verdict, and a reason where it is a no."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import ClassVar, Literal

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from localspec.chat.text import one_line, visible
from localspec.errors import LocalspecError
from localspec.opening import Choice
from localspec.shelf import drafts
from localspec.shelf.choosing import Row
from localspec.shelf.drafts import Draft
from localspec.tui import model_rows

_KEYS = "Enter loads it with this draft · Esc back"


class DraftsScreen(Screen[Choice | Literal["fetch"] | None]):
    """Dismissed with what to load; with "fetch" when the pair's own draft is wanted and not here."""

    CSS_PATH = "models.tcss"
    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back to the models", id="drafts.leave", priority=True),
    ]

    def __init__(self, target: Row, folders: tuple[Path, ...]) -> None:
        super().__init__()
        self._target, self._folders = target, folders
        absent = drafts.absent(target.pair) if target.pair else ()
        self._rows: list[Draft] = [*drafts.DOING_WITHOUT, *absent]
        self._at: str | None = None  # key of the row that the user went to; None: the first one
        self._checking = "looking for files that could draft ..."

    def compose(self) -> ComposeResult:
        name = self._target.pair.title if self._target.pair else self._target.name
        yield Static(Content.assemble((" Draft for ", "bold $primary"), (one_line(name, 60), "bold")), id="title")
        yield OptionList(id="list", markup=False)
        yield Static(id="about")
        yield Static(id="keys")

    def on_mount(self) -> None:
        self._judge()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    @work(exclusive=True, exit_on_error=False)
    async def _judge(self) -> None:
        """One file after the other, on a thread: a header takes a moment."""
        target = self._target.path or ""
        try:
            files = await asyncio.to_thread(drafts.candidates, target, self._target.pair, self._folders)
            verdicts = drafts.judged(target, files)
            for number, file in enumerate(files, 1):
                self._checking = f"checking {number} of {len(files)}: {one_line(file.name, 30)}"
                self._draw()
                if (verdict := await asyncio.to_thread(next, verdicts, None)) is not None:
                    self._rows.append(verdict)
        except LocalspecError as error:
            self.notify(
                visible(f"{error.message} {error.hint}".strip()), severity="error", markup=False, timeout=10
            )
        self._checking = ""
        self._draw()

    def _draw(self) -> None:
        options = self.query_one(OptionList)
        width = options.scrollable_content_region.width - 2
        if width <= 0:
            return
        self._rows.sort(key=lambda each: each.rank)
        keys = [each.key for each in self._rows]
        with options.prevent(OptionList.OptionHighlighted):
            options.set_options(Option(model_rows.draft(each, width)) for each in self._rows)
            options.highlighted = keys.index(self._at) if self._at in keys else 0
        self._explain()

    def _explain(self) -> None:
        self.query_one("#about", Static).update(Content(visible(self._chosen.said)))
        keys = " · ".join(filter(None, (_KEYS, self._checking)))
        self.query_one("#keys", Static).update(Content.styled(keys, "$foreground-muted"))

    @property
    def _chosen(self) -> Draft:
        return self._rows[self.query_one(OptionList).highlighted or 0]

    @on(OptionList.OptionHighlighted)
    def _moved(self) -> None:
        self._at = self._chosen.key
        self._explain()

    @on(OptionList.OptionSelected)
    def _open(self) -> None:
        draft, pair = self._chosen, self._target.pair
        if draft.rank == drafts.REFUSED:
            said = visible(f"{one_line(draft.name, 60)} can't draft here: {draft.said}.")
            self.notify(said, severity="warning", markup=False)
        elif draft.rank == drafts.ABSENT:
            self.dismiss("fetch")
        else:
            target = None if pair else self._target.path
            self.dismiss(Choice(pair.name if pair else None, target, draft.path, draft.method))

    def action_leave(self) -> None:
        self.dismiss(None)
