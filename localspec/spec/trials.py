"""When to try what is not the best: only what is tried is known, and every trial costs.

While a drafter wins, each alternative waits until its expected loss is a small share of the time since it was last
used. While plain decoding wins, the promise is that nothing is lost against it, so trials are paid from a purse: a
small share of the time, and of what speculation saved before. Time is counted in plain steps. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field

_SHARE = 0.003  # of the time, for trials
_EARNED = 0.08  # of what was saved, into the purse: a text that changed once will change again
_PURSE = 12.0  # plain steps, at most
_PARKED_PAUSE = 16.0  # between two trials of the same while plain decoding wins, so that the purse lasts
_PAUSE = 8.0  # the same while a drafter wins
_LONG_AGO = -1e9


@dataclass(slots=True)
class Trials:
    _clock: float = 0.0
    _purse: float = 0.0
    _best: float = 1.0  # tokens per plain step of what the trial is measured against
    _used: dict[str, float] = field(default_factory=dict)

    def due(self, losses: Mapping[str, float], best: float, watched: Container[str] = ()) -> str | None:
        """What to try in this round, if anything, given the expected loss of each alternative against the best, which
        gives so many tokens per plain step; 1 is plain decoding itself. Of what is `watched` anyway, a trial can show
        only the costs, which hardly change: there is no hurry."""
        self._best, parked = best, best <= 1
        if parked and self._purse < 0:
            return None
        last = {what: self._used.get(what, 0.0 if what in watched else _LONG_AGO) for what in losses}
        for what in sorted(losses, key=last.__getitem__):
            wait = max(_PAUSE, losses[what] * len(losses) / _SHARE)
            if parked and what not in watched:
                wait = _PARKED_PAUSE
            if self._clock - last[what] >= wait:
                return what
        return None

    def passed(self, what: str, *, trial: bool, cost: float, tokens: int) -> None:
        """A round went by. A trial that beat the best is repeated at once."""
        self._clock += cost
        self._used[what] = _LONG_AGO if trial and tokens > self._best * cost else self._clock
        saved = tokens - cost
        if not trial:
            self._purse += _EARNED * max(0.0, saved)
        elif self._best <= 1:
            self._purse += saved
        self._purse = min(self._purse + _SHARE * cost, _PURSE)
