"""What a round costs on this machine, learned from real rounds.

The cost of a pass is not linear in its rows and not even monotonic (docs/benchmarks.md), so it is a table by number
of rows, never a formula. All passes get slower together as the context grows or the machine heats up; a common
`scale` follows that quickly, so that rows which were not run lately keep their proportion to those that were.
Knows nothing of acceptance.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field

_SCALE_RATE = 0.1
_SHAPE_RATE = 0.05
_STALL = math.log(1.2)  # a sample further off than this counts as this far: a stall is not a trend
_SETTLING = 4  # the first samples give their lower median: one may be a stall, or build the graph of the width
_GROWTH = 0.15  # cost of one more row relative to one row, where nothing was measured: optimistic, so it is tried


@dataclass(slots=True)
class Costs:
    """Seconds per pass by rows, drafting aside; and seconds per drafted token by drafter."""

    scale: float = 0.0  # log seconds, shared
    shape: dict[int, float] = field(default_factory=dict)  # log seconds relative to scale
    first: dict[int, list[float]] = field(default_factory=dict)  # the first samples of a width, until it settles
    per_draft: dict[str, float] = field(default_factory=dict)

    def observe(self, rows: int, seconds: float) -> None:
        """A pass over `rows` rows took so long, from the draft's arrival to the end of the round."""
        value = math.log(max(seconds, 1e-9)) - self.scale
        first = self.first.setdefault(rows, [])
        if len(first) < _SETTLING:
            first.append(value)
            self.shape[rows] = sorted(first)[(len(first) - 1) // 2]
        else:
            error = max(-_STALL, min(_STALL, value - self.shape[rows]))
            self.scale += _SCALE_RATE * error
            self.shape[rows] += _SHAPE_RATE * error

    def settled(self, rows: int) -> bool:
        """Whether the cost of that width rests on more than a sample or two."""
        return len(self.first.get(rows, ())) >= 3

    def observe_draft(self, source: str, tokens: int, seconds: float) -> None:
        """Drafting `tokens` tokens took so long; a call that found nothing counts as one token."""
        each = seconds / max(1, tokens)
        before = self.per_draft.get(source)
        self.per_draft[source] = each if before is None else before + 0.1 * (min(each, 2 * before) - before)

    def verify(self, rows: int) -> float:
        """Seconds for a pass over `rows` rows: measured, else from measured neighbours. Needs one measurement."""
        if rows in self.shape:
            return self._seconds(rows)
        widths = sorted(self.shape)
        at = bisect_left(widths, rows)
        if at == len(widths):
            low, high = widths[0], widths[-1]
        elif at == 0:
            low = high = widths[0]
        else:
            low, high = widths[at - 1], widths[at]
        slope = (self._seconds(high) - self._seconds(low)) / (high - low) if high > low else self._guess(low)
        return max(self._seconds(low) + slope * (rows - low), 1e-9)

    def draft(self, source: str, tokens: int) -> float:
        """Seconds for drafting so many tokens; 0 before any measurement, so that it is tried."""
        return self.per_draft.get(source, 0.0) * tokens

    def _seconds(self, rows: int) -> float:
        return math.exp(self.scale + self.shape[rows])

    def _guess(self, rows: int) -> float:
        """The price of one more row where a single width is known."""
        return self._seconds(rows) * _GROWTH / (1 + _GROWTH * (rows - 1))
