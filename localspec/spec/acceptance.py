"""How likely a drafted token is accepted, by drafter, by the evidence behind the draft, and by position.

Position i is learned only from rounds that reached it, so short drafts don't dilute deep positions, and an accepted
end says nothing about what would have come after it. Knows nothing of costs.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

_LONG, _SHORT = 0.99, 0.8  # weight of the past per observation: about the last hundred count, or the last five
_CHANGE = 4.0  # log-likelihood by which the short memory must predict better before the long one is given up
_TRUST = 2.0  # observations that the estimate of the position before is worth
_PRIOR = 0.6  # the first position of a drafter that gives no evidence
_LENGTH_RATE = 0.1  # moving average of whether a drafter goes on to a position


@dataclass(slots=True)
class _Memory:
    """Counts that fade."""

    keeps: float
    reached: float = 0.0
    accepted: float = 0.0

    def observe(self, accepted: bool) -> None:
        self.reached = self.reached * self.keeps + 1
        self.accepted = self.accepted * self.keeps + accepted

    def chance(self, prior: float, trust: float) -> float:
        return (self.accepted + trust * prior) / (self.reached + trust)

    def become(self, other: _Memory) -> None:
        self.reached, self.accepted = other.reached, other.accepted

    def shrink(self, reached: float) -> None:
        if self.reached > reached:
            self.accepted *= reached / self.reached
            self.reached = reached


@dataclass(slots=True)
class _Position:
    """A long memory, which is precise, and a short one, which takes over when it predicts better for good (a CUSUM
    test): text changes its nature in the middle of an answer."""

    long: _Memory = field(default_factory=lambda: _Memory(_LONG))
    short: _Memory = field(default_factory=lambda: _Memory(_SHORT))
    doubt: float = 0.0

    def observe(self, accepted: bool) -> bool:
        """Learn; returns whether the rate has changed for good."""
        long, short = self.long.chance(0.5, 1.0), self.short.chance(0.5, 1.0)
        self.doubt = max(0.0, self.doubt + math.log(short / long if accepted else (1 - short) / (1 - long)))
        self.long.observe(accepted)
        self.short.observe(accepted)
        if self.doubt <= _CHANGE:
            return False
        self.doubt = 0.0
        self.long.become(self.short)
        return True


@dataclass(slots=True)
class Acceptance:
    _seen: dict[tuple[str, int], list[_Position]] = field(default_factory=lambda: defaultdict(list))
    _lengths: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def observe(self, source: str, evidence: int, tested: int, accepted: int) -> None:
        """Of the draft's tokens the first `tested` were looked at, and the first `accepted` were right."""
        positions = self._seen[source, evidence]
        while len(positions) < tested:
            positions.append(_Position())
        for i, position in enumerate(positions[:tested]):
            if position.observe(i < accepted):
                for deeper in positions[i + 1 :]:  # they have probably changed with it
                    deeper.long.shrink(_TRUST)

    def observe_length(self, source: str, asked: int, drafted: int) -> None:
        """Asked for so many tokens, the drafter stopped by itself after so many."""
        goes_on = self._lengths[source]
        goes_on += [1.0] * (asked - len(goes_on))
        for i in range(asked):
            goes_on[i] += _LENGTH_RATE * ((i < drafted) - goes_on[i])

    def depth(self, source: str, evidence: int) -> int:
        """How many positions were ever looked at."""
        return len(self._seen.get((source, evidence), ()))

    def weight(self, source: str, evidence: int, position: int = 1) -> float:
        """On how many observations the estimate of a position rests."""
        positions = self._seen.get((source, evidence), [])
        return positions[position - 1].long.reached if position <= len(positions) else 0.0

    def classes(self, source: str) -> dict[int, float]:
        """Its classes of evidence, with their weights."""
        return {evidence: self.weight(source, evidence) for s, evidence in self._seen if s == source}

    def expected(self, source: str, evidence: int, k: int) -> list[float]:
        """E(0)..E(k): tokens that a round with so many drafted tokens emits, its own token included."""
        positions = self._seen.get((source, evidence), [])
        rate, survival, tokens = prior(evidence), 1.0, 1.0
        expected = [tokens]
        for i in range(k):
            if i < len(positions):
                rate = positions[i].long.chance(rate, _TRUST)
            survival *= rate
            tokens += survival
            expected.append(tokens)
        return expected

    def drafted(self, source: str, k: int) -> list[float]:
        """N(0)..N(k): tokens that it really drafts when asked for so many."""
        goes_on, tokens = self._lengths.get(source, []), 0.0
        drafted = [tokens]
        for i in range(k):
            tokens += goes_on[min(i, len(goes_on) - 1)] if goes_on else 1.0
            drafted.append(tokens)
        return drafted


def prior(evidence: int) -> float:
    """The first position before anything was seen. The low four bits of the evidence are the drafter's own belief in
    eighths; measured on real texts, its square comes true. What lies above them only keeps classes apart."""
    eighths = evidence % 16
    return min(0.95, ((eighths + 0.5) / 8) ** 2) if eighths else _PRIOR
