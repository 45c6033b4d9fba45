"""Numbers as text: bars, sparklines, gauges, and folds of rounds into the columns of a strip. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from localspec.spec.types import Round

_LEVELS = "▁▂▃▄▅▆▇█"
SWITCH = "│"  # where the method was switched


def bar(share: float, width: int) -> tuple[str, str]:
    """A horizontal bar of `width` cells, exact to half a cell, and the thinner line that is left of it."""
    full, half = divmod(round(min(max(share, 0.0), 1.0) * width * 2), 2)
    filled = "━" * full + "╸" * half
    return filled, "─" * (width - len(filled))


def level(share: float) -> str:
    return _LEVELS[min(max(int(share * len(_LEVELS)), 0), len(_LEVELS) - 1)]


def stacked(shares: Sequence[float], width: int) -> list[int]:
    """How many of `width` cells each share gets: all of them are given out, the largest remainders first."""
    total = sum(shares)
    if total <= 0:
        return [0] * len(shares)
    exact = [share / total * width for share in shares]
    cells = [int(cell) for cell in exact]
    most_left = sorted(range(len(shares)), key=lambda i: exact[i] - cells[i], reverse=True)
    for i in most_left[: width - sum(cells)]:
        cells[i] += 1
    return cells


def strip(
    rounds: Sequence[Round], width: int, value: Callable[[Sequence[Round]], float | None], top: float = 0.0
) -> str:
    """The whole answer from left to right in at most `width` columns, one mark at each switch of the method.

    A column stands for 1, 2, 4, ... rounds, so that the picture changes its scale seldom. `top` is the value of a
    full column; 0 takes the largest one. A column without a value is a blank.
    """
    segments = [list(group) for _, group in groupby(rounds, key=lambda r: r.method)]
    size = 1
    while len(segments) - 1 + sum(-(-len(segment) // size) for segment in segments) > width and size < len(rounds):
        size *= 2
    runs = [[value(s[i : i + size]) for i in range(0, len(s), size)] for s in segments]
    highest = top or max((v for run in runs for v in run if v is not None), default=0.0) or 1.0
    text = SWITCH.join("".join(" " if v is None else level(v / highest) for v in run) for run in runs)
    return text[-width:]


def gains(speedups: Sequence[float]) -> str:
    """A column for each speed-up, as high as what it gains over 1; a dot where it gains nothing."""
    most = max((speedup - 1 for speedup in speedups), default=0.0)
    return "".join(level((s - 1) / most) if s > 1 else "·" for s in speedups)


def speed_of(rounds: Sequence[Round]) -> float | None:
    seconds = sum(r.total_s for r in rounds)
    return sum(len(r.emitted) for r in rounds) / seconds if seconds > 0 else None


def acceptance_of(rounds: Sequence[Round]) -> float | None:
    tested = sum(r.tested for r in rounds)
    return sum(r.accepted for r in rounds) / tested if tested else None


def short(number: int) -> str:
    """1,240 -> 1.2k: for the places where every cell counts."""
    if number < 1000:
        return str(number)
    thousands = number / 1000
    return f"{thousands:.1f}k" if thousands < 9.95 else f"{thousands:.0f}k"
