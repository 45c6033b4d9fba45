"""Four charts of a report, as SVG written by hand: they scale, diff, and need no program but a browser. Pure.

Colours are readable on white and told apart by people who see red and green alike; every bar carries its number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import accumulate

from localspec.bench.figures import ALL, Figures
from localspec.bench.report import Report
from localspec.bench.tables import short

_COLOURS = ("#8a8a8a", "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#5b4b8a")
_WIDTH = 760
_LEFT = 190  # for labels
_LABEL = 26  # letters that fit there
_RIGHT = 60  # for the number behind a bar
_BAR = 16
_FEWEST = 5  # times that a place of a draft was reached, below which its rate is luck


def charts(report: Report) -> dict[str, str]:
    """File name -> SVG."""
    rows = report.figures
    return {
        "speedup.svg": speedup(rows),
        "acceptance.svg": acceptance(rows),
        "latency.svg": latency(rows, _gaps(report)),
        "time.svg": breakdown(rows),
    }


def speedup(rows: Sequence[Figures]) -> str:
    """Bars by category, with the interval as a whisker and a line at 1."""
    found = [row for row in rows if row.speedup]
    colours = _colours(rows)
    most = max((row.speedup.high or row.speedup.value for row in found if row.speedup), default=1.0)
    most = max(1.2, min(most, 2 * max((row.speedup.value for row in found if row.speedup), default=1.0)))
    y, body = 60, list[str]()
    for category in dict.fromkeys(row.category for row in rows):
        body.append(_text(10, y + 12, category, weight="bold"))
        y += _BAR + 2
        for row in (row for row in found if row.category == category):
            assert row.speedup is not None
            body += _bar(
                y, row.variant, row.speedup.value / most, f"{row.speedup.value:.2f}x", colours[row.variant]
            )
            if row.speedup.low is not None and row.speedup.high is not None:
                body.append(_whisker(y, row.speedup.low / most, row.speedup.high / most))
            y += _BAR + 4
        y += 14
    body.append(_line(_x(1 / most), 46, _x(1 / most), y, "#444", dash="4 3"))
    return _svg("Speed-up over plain decoding, by category", y + 10, body)


def acceptance(rows: Sequence[Figures]) -> str:
    """One line for each variant that drafts: how often each place of a draft was accepted once it was reached."""
    found = {row.variant: row.positions for row in rows if row.category == ALL and row.positions}
    deepest = max((len(_reached(places)) for places in found.values()), default=1)
    colours, body = _colours(rows), list(_axes("place in the draft", "accepted", [f"{p} %" for p in (0, 50, 100)]))
    for place in range(1, deepest + 1):
        if deepest <= 16 or place % 8 == 1:
            body.append(_text(_place(place, deepest), 288, str(place), anchor="middle"))
    for variant, places in found.items():
        points = [
            (_place(i, deepest), 270 - 200 * accepted / reached) for i, (reached, accepted) in _reached(places)
        ]
        body += _curve(points, colours[variant])
    return _svg("Acceptance by position in the draft", 360, body + _legend(found, colours))


def latency(rows: Sequence[Figures], gaps: dict[str, list[float]]) -> str:
    """The share of tokens that came within so many milliseconds."""
    colours = _colours(rows)
    most = max((found[min(len(found) - 1, int(0.995 * len(found)))] for found in gaps.values()), default=1.0)
    body = list(_axes("milliseconds per token", "tokens", [f"{p} %" for p in (0, 50, 100)]))
    for fifth in range(6):
        body.append(_text(_x(fifth / 5), 288, f"{1000 * most * fifth / 5:.0f}", anchor="middle"))
    for variant, found in gaps.items():
        picked = [round(i * (len(found) - 1) / 100) for i in range(101)]
        points = [(_x(min(1.0, found[i] / most)), 270 - 200 * (i + 1) / len(found)) for i in picked]
        body += _curve(points, colours[variant], dots=False)
    return _svg("Inter-token latency: share of tokens at most so long apart", 360, body + _legend(gaps, colours))


def breakdown(rows: Sequence[Figures]) -> str:
    """Where the time of a round goes, in milliseconds per token."""
    found = [row for row in rows if row.category == ALL and row.host_s is not None and row.tokens]
    most = max((row.decode_s / row.tokens for row in found), default=1.0)
    names = ("draft", "verify", "sample", "host")
    shades = dict(zip(names, ("#e69f00", "#0072b2", "#009e73", "#8a8a8a"), strict=True))
    y, body = 60, list[str]()
    for row in found:
        parts = [
            (value or 0.0) / row.tokens / most for value in (row.draft_s, row.verify_s, row.sample_s, row.host_s)
        ]
        body.append(_text(_LEFT - 8, y + 12, short(row.variant, _LABEL), anchor="end"))
        for name, part, end in zip(names, parts, accumulate(parts), strict=True):
            body.append(_rect(_x(end - part), y, _x(end) - _x(end - part), shades[name]))
        body.append(_text(_x(sum(parts)) + 6, y + 12, f"{1000 * row.decode_s / row.tokens:.1f}"))
        y += _BAR + 6
    return _svg(
        "Time per token in milliseconds: draft, verify, sample, host", y + 50, body + _legend(names, shades, y + 20)
    )


def _gaps(report: Report) -> dict[str, list[float]]:
    gaps: dict[str, list[float]] = {}
    for sample in report.outcome.samples:
        for tokens, seconds in sample.reply.latency:
            gaps.setdefault(sample.variant, []).extend([seconds / tokens] * tokens if tokens else [])
    return {variant: sorted(found) for variant, found in gaps.items() if found}


def _reached(places: Sequence[tuple[int, int]]) -> list[tuple[int, tuple[int, int]]]:
    return [(i, (reached, accepted)) for i, (reached, accepted) in enumerate(places, 1) if reached >= _FEWEST]


def _colours(rows: Sequence[Figures]) -> dict[str, str]:
    variants = dict.fromkeys(row.variant for row in rows)
    return {variant: _COLOURS[i % len(_COLOURS)] for i, variant in enumerate(variants)}


def _x(fraction: float) -> float:
    return _LEFT + fraction * (_WIDTH - _LEFT - _RIGHT)


def _place(place: int, deepest: int) -> float:
    return _x((place - 0.5) / deepest)


def _bar(y: float, label: str, fraction: float, number: str, colour: str) -> Iterator[str]:
    yield _text(_LEFT - 8, y + 12, short(label, _LABEL), anchor="end")
    yield _rect(_LEFT, y, _x(fraction) - _LEFT, colour)
    yield _text(_WIDTH - 6, y + 12, number, anchor="end")


def _whisker(y: float, low: float, high: float) -> str:
    return _line(_x(min(1.0, low)), y + _BAR / 2, _x(min(1.0, high)), y + _BAR / 2, "#222")


def _axes(across: str, up: str, ticks: Sequence[str]) -> Iterator[str]:
    yield _text(_x(0.5), 306, across, anchor="middle")
    yield _text(10, 60, up)
    for i, tick in enumerate(ticks):
        y = 270 - 200 * i / (len(ticks) - 1)
        yield _text(_LEFT - 8, y + 4, tick, anchor="end")
        yield _line(_LEFT, y, _x(1), y, "#ddd")


def _curve(points: Sequence[tuple[float, float]], colour: str, *, dots: bool = True) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
    if dots:
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points)


def _legend(names: Iterable[str], colours: dict[str, str], y: float = 330) -> list[str]:
    out, x = list[str](), 20.0
    for name in names:
        if x + 24 + 7 * len(name) > _WIDTH:
            x, y = 20.0, y + 18
        out += [f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{colours[name]}"/>']
        out += [_text(x + 15, y, name)]
        x += 36 + 7 * len(name)
    return out


def _text(x: float, y: float, text: str, *, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(text)}</text>'


def _rect(x: float, y: float, width: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{_BAR}" fill="{colour}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, *, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'


def _svg(title: str, height: float, body: Sequence[str]) -> str:
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height:.0f}" '
            f'viewBox="0 0 {_WIDTH} {height:.0f}" font-family="sans-serif" font-size="12" role="img">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{_WIDTH}" height="{height:.0f}" fill="#ffffff"/>',
            f'<text x="10" y="26" font-size="16" font-weight="bold">{escape(title)}</text>',
            *body,
            "</svg>\n",
        ]
    )
