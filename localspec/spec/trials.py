"""When to try what is not the best: only what is tried is known, and every trial costs.

While a drafter wins, each alternative waits until its expected loss is a small share of the time since it was last
used. While plain decoding wins, the promise is that nothing is lost against it, so trials are paid from a purse: a
small share of the time, and of what speculation saved before. Time is counted in plain steps. Knows nothing of models.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    _parked: bool = True
    _used: dict[str, float] = field(default_factory=dict)

    def due(self, losses: Mapping[str, float], *, parked: bool) -> str | None:
        """What to try in this round, if anything, given the expected loss of each alternative."""
        self._parked = parked
        for what in sorted(losses, key=self._last):
            wait = _PARKED_PAUSE if parked else max(_PAUSE, losses[what] * len(losses) / _SHARE)
            if self._clock - self._last(what) >= wait and not (parked and self._purse < 0):
                return what
        return None

    def passed(self, what: str, *, trial: bool, cost: float, tokens: int, whole: bool) -> None:
        """A round went by. A trial that was accepted as a whole is repeated at once."""
        self._clock += cost
        self._used[what] = _LONG_AGO if trial and whole else self._clock
        saved = tokens - cost
        if trial and self._parked:
            self._purse += saved
        elif not trial:
            self._purse += _EARNED * max(0.0, saved)
        self._purse = min(self._purse + _SHARE * cost, _PURSE)

    def _last(self, what: str) -> float:
        return self._used.get(what, _LONG_AGO)
