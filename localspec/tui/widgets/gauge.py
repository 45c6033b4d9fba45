"""A bar as coloured text: thick for the share, thin for the rest, so that it reads without colours too."""

from __future__ import annotations

from textual.content import Content

from localspec.tui.charts import bar


def gauge(share: float, width: int, colour: str) -> Content:
    filled, rest = bar(share, width)
    return Content.assemble((filled, colour), (rest, "$border-blurred"))
