"""Ctrl+S: the session's statistics as files in a folder, and a word about where they are."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from textual.app import App

from localspec.chat.export import export_session
from localspec.chat.text import visible
from localspec.conversation import Conversation


def export(app: App[None], chat: Conversation, folder: Path) -> None:
    if not chat.session.answers():
        app.notify("There is no answer yet, so there is nothing to export.", markup=False)
        return
    environment = asdict(chat.environment) if chat.environment else None
    paths = export_session(folder, chat.session, environment, now=datetime.now().astimezone())
    names = "\n".join(visible(str(path)) for path in paths)
    app.notify(names, title="Statistics exported", markup=False, timeout=10)
