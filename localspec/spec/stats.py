"""Folds over rounds. Every figure that an interface shows comes from here; no counter lives in a widget.

Definitions (docs/statistics.md): acceptance rate = accepted / tested; mean acceptance length = tokens emitted per
round, the target's own token included. Counts are summed first and divided last.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import groupby, zip_longest

import numpy as np

from localspec.spec.types import Round


@dataclass(frozen=True, slots=True)
class Position:
    """One place in a draft: how often verification reached it, how often it accepted."""

    reached: int
    accepted: int

    @property
    def rate(self) -> float | None:
        return self.accepted / self.reached if self.reached else None


@dataclass(frozen=True, slots=True)
class Stats:
    """Sums over rounds. Times in seconds. Rates are None where nothing was counted."""

    rounds: int = 0
    emitted: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    cut: int = 0  # rounds that ended the answer on a drafted token: they emitted no token of the target's own
    drafts: int = 0  # rounds in which something was proposed
    draft_s: float = 0.0
    verify_s: float = 0.0
    sample_s: float = 0.0
    total_s: float = 0.0
    per_position: tuple[Position, ...] = ()

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.tested if self.tested else None

    @property
    def mean_acceptance_length(self) -> float | None:
        return self.emitted / self.rounds if self.rounds else None

    @property
    def tokens_per_second(self) -> float | None:
        return self.emitted / self.total_s if self.total_s > 0 else None

    def __add__(self, other: Stats) -> Stats:
        """The sums over both: a fold that goes on where another one ended."""
        names = [field.name for field in fields(self) if field.name != "per_position"]
        pairs = zip_longest(self.per_position, other.per_position, fillvalue=Position(0, 0))
        return Stats(
            **{name: getattr(self, name) + getattr(other, name) for name in names},
            per_position=tuple(Position(a.reached + b.reached, a.accepted + b.accepted) for a, b in pairs),
        )

    @property
    def rest_s(self) -> float:
        return max(0.0, self.total_s - self.draft_s - self.verify_s - self.sample_s)


def fold(rounds: Iterable[Round]) -> Stats:
    rows = list(rounds)
    return Stats(
        rounds=len(rows),
        emitted=sum(len(r.emitted) for r in rows),
        drafted=sum(len(r.drafted) for r in rows),
        tested=sum(r.tested for r in rows),
        accepted=sum(r.accepted for r in rows),
        cut=sum(r.cut for r in rows),
        drafts=sum(bool(r.drafted) for r in rows),
        draft_s=sum(r.draft_s for r in rows),
        verify_s=sum(r.verify_s for r in rows),
        sample_s=sum(r.sample_s for r in rows),
        total_s=sum(r.total_s for r in rows),
        per_position=positions(rows),
    )


def positions(rounds: Sequence[Round]) -> tuple[Position, ...]:
    """Acceptance at each draft position, counted only over the rounds in which it was reached."""
    deepest = max((r.tested for r in rounds), default=0)
    return tuple(
        Position(reached=sum(r.tested > i for r in rounds), accepted=sum(r.accepted > i for r in rounds))
        for i in range(deepest)
    )


def by_drafter(rounds: Iterable[Round]) -> dict[str, Stats]:
    rows = sorted((r for r in rounds if r.drafted), key=lambda r: r.source)
    return {source: fold(group) for source, group in groupby(rows, key=lambda r: r.source)}


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of rounds under one method."""

    method: str
    stats: Stats


def segments(rounds: Iterable[Round]) -> tuple[Segment, ...]:
    return tuple(Segment(method, fold(group)) for method, group in groupby(rounds, key=lambda r: r.method))


def inter_token_latency(rounds: Iterable[Round]) -> tuple[float, float] | None:
    """(p50, p95) in seconds. A round of m tokens spreads its duration over them."""
    gaps = [r.total_s / len(r.emitted) for r in rounds for _ in r.emitted]
    if not gaps:
        return None
    p50, p95 = np.percentile(gaps, (50, 95))
    return float(p50), float(p95)
