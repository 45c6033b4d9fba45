"""How an answer's Markdown is read: nothing that the model wrote may vanish, and its lines stay lines."""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore


def parser() -> MarkdownIt:
    """HTML is shown as text, since Textual would drop it; a line feed inside a paragraph is a line feed."""
    markdown = MarkdownIt("gfm-like", {"html": False})
    markdown.core.ruler.push("keep_lines", _keep_lines)
    return markdown


def _keep_lines(state: StateCore) -> None:
    for token in state.tokens:
        for child in token.children or ():
            if child.type == "softbreak":
                child.type = "hardbreak"
