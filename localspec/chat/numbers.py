"""Figures as people read them: as many digits as mean something, and a dash for what was not counted."""

from __future__ import annotations


def percent(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.0f} %"


def speed(tokens_per_second: float | None) -> str:
    if tokens_per_second is None:
        return "–"
    return f"{tokens_per_second:.{1 if tokens_per_second < 10 else 0}f}"


def length(tokens: float | None) -> str:
    return "–" if tokens is None else f"{tokens:.1f}"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.{1 if seconds < 0.01 else 0}f} ms"
