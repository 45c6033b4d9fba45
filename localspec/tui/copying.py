"""Copying what a model said. The terminal is asked to do it, so that it works over SSH too."""

from __future__ import annotations

import re

from textual.app import App

from localspec.chat.text import visible
from localspec.chat.thinking import parts
from localspec.conversation import Conversation

_CODE = re.compile(r"^(?:`{3,}|~{3,})[^\n]*\n(.*?)^(?:`{3,}|~{3,})\s*$", re.MULTILINE | re.DOTALL)


def copy(app: App[None], chat: Conversation, *, code: bool = False) -> None:
    """The last answer without its thoughts, or its last block of code."""
    answer = chat.shown
    text = parts(answer.text, ended=True).said if answer else ""
    blocks = [match[1] for match in _CODE.finditer(text)]
    if not text or (code and not blocks):
        _say(app, f"There is no {'block of code' if text else 'answer'} to copy yet.")
        return
    text = blocks[-1] if code else text
    app.copy_to_clipboard(visible(text))
    _say(app, f"Copied the {'code' if code else 'answer'}: {len(text):,} characters.")


def _say(app: App[None], text: str) -> None:
    app.notify(text, markup=False, timeout=4)
