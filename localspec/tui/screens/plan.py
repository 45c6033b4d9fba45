"""Before a download: what is missing, how large it is, what room there is, under which licence. Then a yes or a no."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from localspec.chat.text import one_line, visible
from localspec.fit.plan import size
from localspec.shelf.choosing import Row
from localspec.shelf.fetching import Download, Planned

_DRAWS_S = 0.2


class PlanScreen(ModalScreen[bool]):
    """Dismissed with whether to fetch it."""

    CSS_PATH = "plan.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "settle(True)", "Fetch it", id="plan.fetch"),
        Binding("escape,n", "settle(False)", "Leave it", id="plan.leave"),
    ]

    def __init__(self, download: Download, row: Row) -> None:
        super().__init__()
        self._download, self._row = download, row
        self._drawn = ""

    def compose(self) -> ComposeResult:
        with VerticalScroll() as box:
            box.border_title = "Fetch " + one_line(self._download.pair.title, 40)
            yield Static()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._download.ask()
        self._follow()
        self.set_interval(_DRAWS_S, self._follow)

    def _follow(self) -> None:
        if self._download.state != self._drawn:
            self._drawn = self._download.state
            self.query_one(Static).update(Content("\n").join(self._lines()))
            fetches = "[@click=screen.settle(True)]Enter fetches it[/] · "
            esc = "[@click=screen.settle(False)]Esc leaves it[/]"
            self.query_one(VerticalScroll).border_subtitle = (fetches if self._drawn == "planned" else "") + esc

    def _lines(self) -> Iterator[Content]:
        download = self._download
        if download.error:
            yield Content.styled(visible(download.error.message), "$error")
            yield Content(visible(download.error.hint))
        elif download.planned and download.state == "planned":
            yield from _plan(download.planned)
            yield Content("")
            yield Content(visible(self._row.mark.why))
            yield from self._terms()
        else:
            yield Content("Asking the Hub what it takes ...")

    def _terms(self) -> Iterator[Content]:
        pair = self._download.pair
        if pair.licence:
            yield Content(visible(f"Licence: {pair.licence}."))
        if pair.gated:
            yield Content("The Hub gives it to those who accepted its terms.")

    def action_settle(self, wanted: bool) -> None:
        if not wanted or self._download.state == "planned":
            self.dismiss(wanted)


def _plan(made: Planned) -> Iterator[Content]:
    for file in made.plan.files:
        state = "here" if file.here else f"{size(file.partial)} here" if file.partial else ""
        yield Content.assemble(
            f"{file.role:<7}{size(file.size):>8}  ",
            (f"{state}  " if state else "", "$success"),
            (one_line(f"{file.repo}/{file.name}", 100), "$foreground-muted"),
        )
    yield from (Content(visible(note)) for note in made.plan.notes)
    missing = made.plan.missing_bytes
    yield Content("")
    yield Content(f"To fetch: {size(missing) if missing else 'nothing'}. Free on the disk: {size(made.free)}.")
