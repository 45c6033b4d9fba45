"""How likely a drafted token is accepted, by drafter, by the evidence behind the draft, and by position.

Position i is learned only from rounds that reached it, so short drafts don't dilute deep positions, and an accepted
end says nothing about what would have come after it. Knows nothing of costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

_MEMORY = 0.985  # weight of the past per observation: about the last sixty count
_FAST = 0.2  # rate of the short average that notices a change
_CHANGE = (
    3.0  # standard deviations of that average: beyond them, the past is forgotten but for this many observations:
)
_KEPT = 6.0
_TRUST = 2.0  # observations that the estimate of the position before is worth


@dataclass(slots=True)
class _Position:
    reached: float = 0.0
    accepted: float = 0.0
    lately: float = 0.5

    def observe(self, accepted: bool) -> bool:
        """Learn; returns whether the rate has changed for good."""
        self.reached = self.reached * _MEMORY + 1
        self.accepted = self.accepted * _MEMORY + accepted
        rate = self.accepted / self.reached
        self.lately += max(_FAST, 1 / self.reached) * (accepted - self.lately)
        spread = math.sqrt(max(rate * (1 - rate), 0.02) * _FAST / (2 - _FAST))
        changed = self.reached > _KEPT and abs(self.lately - rate) > _CHANGE * spread
        if changed:
            self.reached, self.accepted = _KEPT, _KEPT * self.lately
        return changed

    def fade(self) -> None:
        """Doubt: an earlier position has changed, so this one has probably changed with it."""
        if self.reached > _TRUST:
            self.accepted *= _TRUST / self.reached
            self.reached = _TRUST


@dataclass(slots=True)
class Acceptance:
    """`prior` is the belief in the first position before anything was seen, by evidence."""

    prior: dict[int, float] = field(default_factory=dict)
    _seen: dict[tuple[str, int], list[_Position]] = field(default_factory=lambda: defaultdict(list))

    def observe(self, source: str, evidence: int, tested: int, accepted: int) -> None:
        positions = self._seen[source, evidence]
        while len(positions) < tested:
            positions.append(_Position())
        for i, position in enumerate(positions[:tested]):
            if position.observe(i < accepted):
                for deeper in positions[i + 1 :]:
                    deeper.fade()

    def expected(self, source: str, evidence: int, k: int, optimism: float = 0.0) -> list[float]:
        """E(0)..E(k): tokens that a round with that many drafted tokens emits, its own token included.

        `optimism` adds that many standard deviations of each estimate, so that what was hardly tried is tried
        (upper confidence bound) and what was tried often is judged as it is.
        """
        positions = self._seen.get((source, evidence), [])
        rate, survival, tokens = self.prior.get(evidence, 0.6), 1.0, 1.0
        expected = [tokens]
        for i in range(k):
            reached = 0.0
            if i < len(positions):
                seen = positions[i]
                reached = seen.reached
                rate = (seen.accepted + _TRUST * rate) / (reached + _TRUST)
            bonus = optimism * math.sqrt(rate * (1 - rate) / (reached + _TRUST)) if reached else 0.0
            survival *= min(1.0, rate + bonus)
            tokens += survival
            expected.append(tokens)
        return expected
