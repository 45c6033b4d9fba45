"""How fast a download goes: reports about ten times a second, with the rate over the last seconds."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from localspec.hub.types import PlannedFile, Progress

_EVERY_S = 0.1
_WINDOW_S = 5.0
_LEAST_S = 0.5  # a rate over less than this is noise


class Meter:
    def __init__(
        self, file: PlannedFile, report: Callable[[Progress], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._file, self._report, self._clock = file, report, clock
        self._seen: deque[tuple[float, int]] = deque()
        self._note = ""
        self._next = float("-inf")

    def at(self, done: int, note: str = "") -> None:
        """A change of the note, and the end, are reported at once."""
        now = self._clock()
        if now < self._next and note == self._note and done < self._file.size:
            return
        self._next, self._note = now + _EVERY_S, note
        if self._seen and done < self._seen[-1][1]:  # it began again
            self._seen.clear()
        self._seen.append((now, done))
        while now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        rate = self._rate()
        left = (self._file.size - done) / rate if rate else None
        self._report(Progress(self._file.role, self._file.name, done, self._file.size, rate, left, note))

    def _rate(self) -> float | None:
        (then, before), (now, done) = self._seen[0], self._seen[-1]
        return (done - before) / (now - then) if now - then >= _LEAST_S else None
