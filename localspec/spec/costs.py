"""What a round costs on this machine, in plain steps, learned from real rounds.

The cost of a pass is not linear in its rows and not even monotonic, so it is a table by number of rows, never a
formula. All passes get slower together as the context grows or the machine heats up, so the table holds ratios to a
plain step, which stay, beside the seconds of a plain step, which move. Knows nothing of acceptance.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any

_SETTLING = 3  # the first samples give their median: one may be a stall, or build the graph of the width
_STEP_RATE = 0.06  # moving average of a plain step: follows the machine within some twenty rounds
_RATIO_RATE = 0.02  # of the ratios, which hardly move: else they and the step drift apart together
_RETURN_RATE = 0.3  # of what it takes to come back, which depends on how long the pause was
_STALL = math.log(1.2)  # a sample further off than this counts as this far: a stall is not a trend
_GROWTH = 0.15  # cost of one more row where none was measured: optimistic, so that it is tried
_DOUBT = math.log(2)  # a first sample this far above what its neighbours promise waits for a second one


@dataclass(slots=True)
class _Level:
    """A robust average of logarithms: the mean at first, a moving one once it is as slow as `rate`."""

    value: float = 0.0
    first: list[float] = field(default_factory=list)
    samples: int = 0
    known: bool = False  # from an earlier start, or measured before the first round

    def observe(self, sample: float, rate: float) -> None:
        self.samples += 1
        if len(self.first) < _SETTLING:
            self.first.append(sample)
            self.value = median_low(self.first)
        else:
            rate = max(rate, 1 / self.samples)
            self.value += rate * max(-_STALL, min(_STALL, sample - self.value))

    @property
    def ratio(self) -> float:
        return math.exp(self.value)

    @property
    def settled(self) -> bool:
        return len(self.first) >= _SETTLING

    @property
    def worth(self) -> bool:
        """Whether to keep it: more than one lucky or unlucky sample."""
        return self.settled or self.known


@dataclass(slots=True)
class Costs:
    """In plain steps: `verify(1)` is 1 by definition."""

    _step: _Level = field(default_factory=_Level)  # a plain step, in seconds
    _rows: dict[float, _Level] = field(default_factory=dict)  # a pass over so many rows
    _drafts: dict[str, _Level] = field(default_factory=dict)  # one drafted token, by drafter
    _returns: dict[str, float] = field(default_factory=dict)  # coming back after a pause, by drafter

    @property
    def samples(self) -> int:
        """On how many passes the seconds of a plain step rest, up to the number that settles them."""
        return len(self._step.first)

    @property
    def step_s(self) -> float | None:
        """Seconds of a plain step, None before one was seen."""
        return self._step.ratio if self._step.first else None

    @property
    def widest(self) -> int:
        """The most rows that a pass was seen with."""
        return int(max(self._rows, default=1))

    def begin_with(self, ratios: Mapping[int, float]) -> None:
        """What was measured before any round (calibration.py), for the widths of which nothing is known. It weighs
        as much as what is restored: two samples outvote it."""
        for rows, ratio in ratios.items():
            self._rows.setdefault(rows, _restored(ratio))

    def observe(self, rows: int, seconds: float) -> None:
        """A pass over `rows` rows took so long, drafting aside."""
        value = math.log(max(seconds, 1e-9))
        if rows == 1:
            self._step.observe(value, _STEP_RATE)
        elif self._step.first:
            level = self._rows.get(rows)
            if level is not None and level.settled:
                self._step.observe(value - level.value, _STEP_RATE)
            self._observe_ratio(rows, value - self._step.value)

    def _observe_ratio(self, rows: int, ratio: float) -> None:
        if rows not in self._rows:
            promised = math.log(self.verify(rows))
            self._rows[rows] = _Level(promised, [promised] if ratio > promised + _DOUBT else [])
        self._rows[rows].observe(ratio, _RATIO_RATE)

    def observe_draft(self, source: str, tokens: int, seconds: float, *, in_step: bool) -> float:
        """Drafting `tokens` tokens took so long; a call that found nothing counts as one token.

        A drafter that is not `in_step`, because others had the rounds before, first reads what it missed. That can
        show only that drafting is cheaper than believed; what is left of it is what coming back took, and returned.
        """
        steps = max(seconds, 1e-9) / self._step.ratio
        extra = 0.0 if in_step else max(0.0, steps - self.draft(source, tokens))
        if not in_step:
            before = self._returns.get(source, extra)
            self._returns[source] = before + _RETURN_RATE * (extra - before)
        ratio = math.log(steps / max(1, tokens))
        level = self._drafts.get(source)
        if in_step or (level is not None and ratio < level.value):
            self._drafts.setdefault(source, _Level()).observe(ratio, _STEP_RATE)
        return extra

    def verify(self, rows: float) -> float:
        """A pass over `rows` rows: measured, else guessed from the next narrower width that was, and rather too low:
        what is tried is corrected, what is not tried is never known."""
        if rows in self._rows:
            return self._rows[rows].ratio
        widths = [1, *sorted(self._rows)]
        at = max(1, bisect_left(widths, rows))
        near = widths[at - 1]
        slope = (self._measured(near) - 1) / (near - 1) if near > 1 else _GROWTH
        if at < len(widths):
            slope = min(slope, (self._measured(widths[at]) - self._measured(near)) / (widths[at] - near))
        return self._measured(near) + max(0.0, slope) * (rows - near)

    def draft(self, source: str, tokens: float) -> float:
        """Drafting so many tokens; nothing before it was measured, so that it is tried."""
        level = self._drafts.get(source)
        return level.ratio * tokens if level else 0.0

    def returning(self, source: str) -> float:
        """What it takes to draft after a pause, beyond the draft itself."""
        return self._returns.get(source, 0.0)

    def _measured(self, rows: float) -> float:
        return 1.0 if rows == 1 else self._rows[rows].ratio

    def to_dict(self) -> dict[str, Any]:
        """The ratios that rest on more than a lucky or unlucky sample, as plain JSON types."""
        return {
            "rows": {str(int(rows)): level.ratio for rows, level in sorted(self._rows.items()) if level.worth},
            "drafts": {source: level.ratio for source, level in sorted(self._drafts.items()) if level.worth},
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> Costs:
        """What is restored weighs as much as one sample: two new ones outvote it. Raises ValueError for what
        `to_dict` can't have written."""
        try:
            rows: dict[float, _Level] = {int(rows): _restored(ratio) for rows, ratio in saved["rows"].items()}
            drafts = {str(source): _restored(ratio) for source, ratio in saved["drafts"].items()}
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not a table of costs: {error!r}") from None
        if any(width < 2 for width in rows):
            raise ValueError("not a table of costs: rows below 2")
        return cls(_rows=rows, _drafts=drafts)


def _restored(ratio: float) -> _Level:
    value = math.log(ratio)
    if not math.isfinite(value):
        raise ValueError(f"not a cost: {ratio}")
    return _Level(value, [value], known=True)
