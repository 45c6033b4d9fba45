"""How a download looks on standard error: a bar for each role on a terminal, a line every few seconds elsewhere.

Knows the progress reports of the Hub's room, and nothing of how bytes arrive.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TextIO

from localspec.hub import Plan, Progress

_LINE_EVERY_S = 5.0

Report = Callable[[Progress], None]


def showing(plan: Plan) -> AbstractContextManager[Report]:
    return _bars(plan) if sys.stderr.isatty() else nullcontext(Lines(plan, sys.stderr))


def size(count: float) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def pace(progress: Progress) -> str:
    """The rate and the time left; or why nothing moves."""
    if progress.note:
        return progress.note
    rate = f"{size(progress.rate)}/s" if progress.rate else ""
    left = f"{duration(progress.left_s)} left" if progress.left_s else ""
    return ", ".join(filter(None, (rate, left)))


class Sums:
    """Bytes by role: a model may come in several files."""

    def __init__(self, plan: Plan) -> None:
        self.totals, self._done = Counter[str](), Counter[tuple[str, str]]()
        for file in plan.files:
            self.totals[file.role] += file.size
            self._done[file.role, file.name] = file.size if file.here else file.partial

    def here(self, role: str) -> int:
        return sum(count for (whose, _), count in self._done.items() if whose == role)

    def add(self, progress: Progress) -> int:
        self._done[progress.role, progress.name] = progress.done
        return self.here(progress.role)


class Lines:
    """For logs and screen readers: never more than one line in a few seconds, but always the last of a role."""

    def __init__(self, plan: Plan, out: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._sums, self._out, self._clock = Sums(plan), out, clock
        self._next = float("-inf")
        self._whole = {role for role, total in self._sums.totals.items() if self._sums.here(role) == total}

    def __call__(self, progress: Progress) -> None:
        here, total, role = self._sums.add(progress), self._sums.totals[progress.role], progress.role
        if role in self._whole or (here < total and self._clock() < self._next):
            return
        self._next = self._clock() + _LINE_EVERY_S
        if here == total:
            self._whole.add(role)
        how = pace(progress) if here < total else "complete"
        text = ", ".join(filter(None, (f"{role:<7} {size(here)} of {size(total)}", how)))
        print(text, file=self._out, flush=True)


@contextmanager
def _bars(plan: Plan) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bars

    sums = Sums(plan)
    columns = (
        TextColumn("{task.description:<7}"),
        BarColumn(None),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[bytes]}"),
        TextColumn("{task.fields[pace]}"),
    )
    with Bars(*columns, console=Console(stderr=True, highlight=False), expand=True) as bars:
        tasks = {
            role: bars.add_task(
                role, total=total, completed=sums.here(role), pace="", bytes=_of(sums.here(role), total)
            )
            for role, total in sums.totals.items()
        }

        def report(progress: Progress) -> None:
            here, total = sums.add(progress), sums.totals[progress.role]
            how = pace(progress) if here < total else ""
            bars.update(tasks[progress.role], completed=here, pace=how, bytes=_of(here, total))

        yield report


def _of(here: int, total: int) -> str:
    return f"{size(here)} of {size(total)}"


def duration(seconds: float) -> str:
    if seconds >= 2 * 86_400:
        return f"{seconds / 86_400:.0f} days"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
