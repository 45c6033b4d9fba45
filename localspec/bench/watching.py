"""What a person sees while it runs: a line with the time left on standard error, and what was noticed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TextIO

_STEPS = 10  # without a terminal: so many lines in all


@dataclass(slots=True)
class Watching:
    """The Watch of runner.py."""

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    clock: Callable[[], float] = monotonic
    stopped: bool = False
    on_stop: Callable[[], None] = lambda: None
    _began: float | None = None
    _line: str = ""
    _step: int = 0

    def progress(self, done: int, total: int) -> None:
        """The first answer begins the clock: it says nothing about the second one where it had to load things."""
        now = self.clock()
        if self._began is None:
            self._began, self._step = now, done * _STEPS // total
            if not self.stream.isatty():
                self.stream.write(f"localspec: measuring, {total:,} answers\n")
            return
        each = (now - self._began) / max(1, done - 1)
        text = f"{done:,} of {total:,} answers, {duration(each * (total - done))} left"
        if self.stream.isatty():
            self._show(f"[{_bar(done / total)}] {text}" if done < total else "")
        elif done * _STEPS // total > self._step:
            self._step = done * _STEPS // total
            self.stream.write(f"localspec: {text}\n")

    def tell(self, text: str) -> None:
        line = self._line
        self._show("")
        self.stream.write(f"localspec: {text}\n")
        self._show(line)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """The first Ctrl+C ends the measuring after the answer that runs; the second ends it at once."""
        previous = signal.signal(signal.SIGINT, self._interrupted)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)
            self._show("")

    def _interrupted(self, *_: object) -> None:
        self.stopped = True
        self.on_stop()
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def _show(self, line: str) -> None:
        if self._line or line:
            rest = max(0, len(self._line) - len(line)) + 2  # a terminal echoes ^C behind the line
            self.stream.write("\r" + line + " " * rest + ("" if line else "\r"))
            self.stream.flush()
        self._line = line


def duration(seconds: float) -> str:
    """`45 s`, `3 min 20 s`, `1 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"


def _bar(fraction: float, width: int = 24) -> str:
    full = round(fraction * width)
    return "#" * full + "." * (width - full)
