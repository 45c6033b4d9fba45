"""`‹ 2/3 ›` beside a message that has siblings. The arrows can be clicked."""

from __future__ import annotations

from textual.content import Content

from localspec.chat.session import Node


def sibling_mark(node: Node) -> Content:
    place, count = node.place
    if count == 1:
        return Content("")
    return Content.from_markup(
        f"   [$foreground-muted][@click=screen.sibling(-1, {node.id})] ‹ [/]{place}/{count}"
        f"[@click=screen.sibling(1, {node.id})] › [/][/]"
    )
