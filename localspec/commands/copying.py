"""/copy: all that the last answer says, or its last block of code. Knows no clipboard."""

from __future__ import annotations

import re

from localspec.chat.session import Node
from localspec.chat.text import visible
from localspec.chat.thinking import parts
from localspec.conversation import Conversation
from localspec.errors import UsageError

_CODE = re.compile(r"^(?:`{3,}|~{3,})[^\n]*\n(.*?)^(?:`{3,}|~{3,})\s*$", re.MULTILINE | re.DOTALL)


def copied(chat: Conversation, *, code: bool = False) -> str:
    """Without thoughts. Raises UsageError where there is nothing yet."""
    text = said(chat, chat.answers[-1]) if chat.answers else ""
    blocks = [match[1] for match in _CODE.finditer(text)]
    if not text or (code and not blocks):
        raise UsageError(f"There is no {'block of code' if text else 'answer'} to copy yet.")
    return visible(blocks[-1] if code else text)


def said(chat: Conversation, node: Node) -> str:
    """An answer as far as it got, without its thoughts."""
    assert node.answer is not None, "only answers have thoughts"
    return parts(node.answer.text, opened=chat.opened(node), ended=True).said


def confirmed(text: str, *, code: bool = False) -> str:
    return f"Copied the {'code' if code else 'answer'}: {len(text):,} characters."
