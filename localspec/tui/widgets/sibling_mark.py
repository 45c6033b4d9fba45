"""`‹ 2/3 ›` beside a message that has siblings. The arrows can be clicked."""

from __future__ import annotations

from textual.content import Content
from textual.style import Style

from localspec.chat.session import Node


def sibling_mark(node: Node) -> Content:
    place, count = node.place
    if count == 1:
        return Content("")
    return Content.assemble(
        "   ", _arrow(" ‹ ", -1, node), (f"{place}/{count}", "$foreground-muted"), _arrow(" › ", 1, node)
    )


def _arrow(text: str, step: int, node: Node) -> Content:
    click = Style.from_meta({"@click": f"screen.sibling({step}, {node.id})"})
    return Content.styled(text, "$foreground-muted").stylize(click)
