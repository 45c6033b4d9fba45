"""Pairs, files, drafts and downloads as lines of a list, cut to its width. Names and reasons are the words
of others."""

from __future__ import annotations

from textual.content import Content

from localspec.chat.numbers import percent
from localspec.chat.text import one_line
from localspec.fit.plan import size
from localspec.shelf.choosing import Row
from localspec.shelf.drafts import ABSENT, FITS, REFUSED, TRANSLATED, WITHOUT, Draft
from localspec.shelf.fetching import Bar, Download
from localspec.tui import charts

_FAMILY_FROM, _DRAFTING_FROM = 84, 68  # columns from which on there is room for them
_FAMILY, _DRAFTING, _SIZE, _FITS, _HERE = 14, 16, 8, 11, 8
_LEAST = 14  # columns that a name keeps
_SYMBOLS = {FITS: "●", WITHOUT: "·", ABSENT: "↓", TRANSLATED: "◐", REFUSED: "✗"}
_COLOURS = {"●": "$success", "◐": "$warning", "○": "$primary", "✗": "$error"}
_HERE_WORDS = {"yes": "here", "part": "part", "no": "↓ fetch"}
_STATES = {
    "asking": "asking the Hub",
    "planned": "waiting",
    "fetching": "fetching",
    "stopping": "stopping",
    "stopped": "stopped · Enter goes on",
    "failed": "failed · Enter tries again",
    "whole": "here · Enter loads it",
}


def head(width: int, first: str) -> Content:
    """The names of the columns of `row`."""
    family = f"  {'FAMILY':<{_FAMILY}}" if width >= _FAMILY_FROM and first == "PAIR" else ""
    drafting = f"  {'DRAFTS WITH':<{_DRAFTING}}" if width >= _DRAFTING_FROM and first == "PAIR" else ""
    right = f"{family}{drafting}  {'SIZE':>{_SIZE}}  {'FITS':<{_FITS}} {'HERE':<{_HERE}}"
    return Content.styled(first.ljust(max(_LEAST, width - len(right))) + right, "$foreground-muted")


def row(each: Row, width: int, here: str) -> Content:
    """Name, family, drafting, size, how it fits, and `here`: whether it is here or how far its download is."""
    family = f"  {one_line(each.family, _FAMILY):<{_FAMILY}}" if width >= _FAMILY_FROM and each.pair else ""
    drafting = (
        f"  {one_line(each.drafting, _DRAFTING):<{_DRAFTING}}" if width >= _DRAFTING_FROM and each.pair else ""
    )
    total = size(each.size) if each.size else "?"
    symbol, words, _ = each.mark
    room = width - len(family) - len(drafting) - _SIZE - _FITS - _HERE - 5
    return Content.assemble(
        _cut(each.name, max(_LEAST, room)),
        (family + drafting, "$foreground-muted"),
        f"  {total:>{_SIZE}}  ",
        (symbol, _COLOURS.get(symbol, "$foreground-muted")),
        f" {words:<{_FITS - 2}} ",
        (f"{here:<{_HERE}}", "bold" if here == "loaded" else "$foreground-muted" if here == "↓ fetch" else ""),
    )


def here(each: Row, download: Download | None, loaded: str | None) -> str:
    if download and download.state == "fetching":
        return percent(download.share)
    if download and download.state in ("asking", "stopped", "failed", "stopping"):
        return download.state
    if each.path and each.path == loaded:
        return "loaded"
    if each.source == "pip" and each.here == "no":
        return "pip"
    return _HERE_WORDS[each.here]


def draft(each: Draft, width: int) -> Content:
    """What can't draft is dimmed, and says why."""
    name = max(_LEAST, min(34, width // 2 - 6))
    total = size(each.size) if each.size else ""
    symbol = _SYMBOLS[each.rank]
    line = Content.assemble(
        (f"{symbol} ", _COLOURS.get(symbol, "$primary")),
        _cut(each.name, name).stylize("$foreground-muted" if each.rank == REFUSED else ""),
        f" {total:>{_SIZE}}  ",
        (one_line(each.said, 200), "$foreground-muted"),
    )
    return line.truncate(width, ellipsis=True)


def download(each: Download, width: int) -> Content:
    """A line that says how it stands, and a bar for each role."""
    error = "$error" if each.state == "failed" else "$foreground-muted"
    lines = [Content.assemble((one_line(each.pair.title, 40), "bold"), "  ", (_STATES[each.state], error))]
    if each.error and each.state == "failed":
        lines.append(Content(f"  {one_line(f'{each.error.message} {each.error.hint}', 400)}"))
    lines += [_bar(bar, width) for bar in each.bars]
    return Content("\n").join(lines)


def _bar(bar: Bar, width: int) -> Content:
    """`target ━━━━━━──── 3.1 of 4.9 GB  52 MB/s, 35 s left`; a narrow screen has a short bar."""
    figures = f" {of(bar.done, bar.total)}  {one_line(bar.pace, 44)}"
    room = max(6, min(40, width - len(figures) - 10))
    share = bar.done / bar.total if bar.total else 0.0
    full, rest = charts.bar(share, room)
    line = Content.assemble(f"  {bar.role:<7}", (full, "$primary"), (rest, "$foreground-muted"), figures)
    return line.truncate(width, ellipsis=True)


def of(done: int, total: int) -> str:
    """`3.1 of 4.9 GB`: the unit once, where it is the same."""
    first, second = size(done), size(total)
    return f"{first[:-3]} of {second}" if first[-2:] == second[-2:] else f"{first} of {second}"


def _cut(name: str, width: int) -> Content:
    """Exactly so many cells, whatever the letters."""
    text = Content(one_line(name, width)).truncate(width, ellipsis=True)
    return text.pad_right(width - text.cell_length)
