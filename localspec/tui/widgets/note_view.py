"""A note in the transcript: something the user should know, or what went wrong and what to do."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from localspec.chat.text import visible
from localspec.conversation import Note


class NoteView(Static):
    def __init__(self, note: Note) -> None:
        hint = ("\n" + visible(note.hint), "$foreground-muted") if note.hint else ""
        super().__init__(Content.assemble(visible(note.text), hint), classes="error" if note.error else "")
