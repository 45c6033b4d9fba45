"""Copying what a model said. The terminal is asked to do it, so that it works over SSH too."""

from __future__ import annotations

from textual.app import App

from localspec.commands.copying import confirmed, copied
from localspec.conversation import Conversation
from localspec.errors import UsageError


def copy(app: App[None], chat: Conversation, *, code: bool = False) -> None:
    """The last answer without its thoughts, or its last block of code."""
    try:
        text = copied(chat, code=code)
    except UsageError as error:
        app.notify(error.message, markup=False, timeout=4)
        return
    app.copy_to_clipboard(text)
    app.notify(confirmed(text, code=code), markup=False, timeout=4)
