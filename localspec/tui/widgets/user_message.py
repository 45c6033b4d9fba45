"""One message of the user's."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from localspec.chat.session import Node
from localspec.chat.text import visible
from localspec.tui.widgets.sibling_mark import sibling_mark

_MOST_LINES, _MOST_CHARACTERS = 40, 4000


class UserMessage(Static):
    def __init__(self, node: Node) -> None:
        assert node.message is not None, "a message of the user's"
        head = Content.assemble(("You", "bold $primary"), sibling_mark(node))
        super().__init__(Content.assemble(head, "\n", *clipped(visible(node.message.text))))


def clipped(text: str) -> tuple[str, tuple[str, str]]:
    """The beginning of a long text, and what is left out. Laying out 100 KB again at each resize is slow."""
    head = "\n".join(text[:_MOST_CHARACTERS].split("\n")[:_MOST_LINES])
    rest = len(text) - len(head)
    return head, (
        f"\n… and {rest:,} more characters, which the model reads too" if rest else "",
        "$foreground-muted",
    )
