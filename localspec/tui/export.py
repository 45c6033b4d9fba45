"""Ctrl+S and /export: figures or the conversation as files, and a word about where they are."""

from __future__ import annotations

from pathlib import Path

from textual.app import App

from localspec.chat.text import visible
from localspec.commands import files
from localspec.conversation import Conversation


def export(app: App[None], chat: Conversation, folder: Path, argument: str = "") -> None:
    paths = files.export(chat, folder, argument)
    names = "\n".join(visible(str(path)) for path in paths)
    what = "Statistics" if len(paths) > 1 else "Conversation"
    app.notify(names, title=f"{what} exported", markup=False, timeout=10)
