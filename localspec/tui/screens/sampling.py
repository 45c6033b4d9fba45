"""The sampling settings as a form, made from the list in commands/sampling_fields.py. Returns what was changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from localspec.commands.sampling_fields import FIELDS, Field
from localspec.errors import SamplingError
from localspec.spec.settings import Sampling


class FieldRow(Horizontal):
    """One setting: its name, the value, the default and what the model's authors recommend, and what is wrong."""

    def __init__(self, field: Field, sampling: Sampling, recommended: float | None) -> None:
        super().__init__()
        self.field = field
        self._value = getattr(sampling, field.name)
        self._notes = [f"default {field.shown(field.default)}"]
        if recommended is not None:
            self._notes.append(f"recommended {field.shown(recommended)}")

    def compose(self) -> ComposeResult:
        yield Static(self.field.name, classes="label", markup=False)
        yield Input(self.field.shown(self._value), id=self.field.name, compact=True)
        yield Static(" · ".join(self._notes), classes="note", markup=False)

    def read(self) -> Any:
        """The value; raises SamplingError, and says in the row what is allowed."""
        note = self.query_one(".note", Static)
        try:
            value = self.field.read(self.query_one(Input).value)
        except SamplingError as error:
            self.add_class("wrong")
            note.update(error.hint)
            raise
        self.remove_class("wrong")
        note.update(" · ".join(self._notes))
        return value


class SamplingScreen(ModalScreen[Mapping[str, Any] | None]):
    CSS_PATH = "sampling.tcss"
    HELP = (
        "The settings of the next answers. Empty: the default. Enter takes them all, Esc leaves them as they were."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Leave the settings as they were", id="settings.leave"),
        Binding("up", "app.focus_previous", "The setting above", id="settings.up", priority=True),
        Binding("down", "app.focus_next", "The setting below", id="settings.down", priority=True),
        Binding("ctrl+r", "recommended", "Take what the model's authors recommend", id="settings.recommended"),
    ]

    def __init__(self, sampling: Sampling, recommended: Mapping[str, float] | None = None) -> None:
        super().__init__()
        self._sampling, self._recommended = sampling, recommended or {}

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = "Sampling"
            box.border_subtitle = "Enter takes · Esc leaves" + (
                " · Ctrl+R recommended" if self._recommended else ""
            )
            with VerticalScroll(can_focus=False):
                for field in FIELDS.values():
                    yield FieldRow(field, self._sampling, self._recommended.get(field.name))
            yield Static(classes="about", markup=False)

    def action_recommended(self) -> None:
        for row in self._rows():
            if row.field.name in self._recommended:
                row.query_one(Input).value = row.field.shown(self._recommended[row.field.name])

    @on(Input.Changed)
    def _check(self, event: Input.Changed) -> None:
        self._read_all()

    @on(Input.Submitted)
    def _take(self) -> None:
        if (values := self._read_all()) is not None:
            self.dismiss(values)

    def on_descendant_focus(self) -> None:
        self._read_all()

    def _read_all(self) -> dict[str, Any] | None:
        """None where something is wrong: then the last line says it too, since a row may be short of room."""
        values, wrong = {}, ""
        for row in self._rows():
            try:
                values[row.field.name] = row.read()
            except SamplingError as error:
                wrong = wrong or f"{row.field.name}: {error.hint}"
        focused = self.focused.id if self.focused else None
        self.query_one(".about", Static).update(wrong or (FIELDS[focused].help if focused in FIELDS else ""))
        return None if wrong else values

    def _rows(self) -> Iterator[FieldRow]:
        return iter(self.query(FieldRow))
