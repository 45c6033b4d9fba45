"""Downloads that go on beside a screen: each on a thread of its own, seen through a queue that the screen empties.

Knows the Hub's room and no widget. A download belongs to the program, not to the screen that began it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal, TypeAlias

from localspec.catalog import Pair
from localspec.errors import LocalspecError

if TYPE_CHECKING:  # the Hub's client takes a second to import: the threads do that
    from localspec.hub import Plan, Progress, Transfer

log = logging.getLogger(__name__)

# asking the Hub what is missing; planned and waiting for a yes; and so on
State: TypeAlias = Literal["asking", "planned", "fetching", "stopping", "stopped", "failed", "whole"]
_Work: TypeAlias = Callable[[threading.Event], object]
_GOODBYE_S = 1.0


@dataclass(frozen=True, slots=True)
class Bar:
    """How much of one role's files is here. `pace` is the rate and the time left, or why nothing moves."""

    role: str
    done: int
    total: int
    pace: str = ""


@dataclass(frozen=True, slots=True)
class Planned:
    plan: Plan
    free: int  # bytes of the disk


class Download:
    """The download of one pair. Only `poll` changes what a screen sees."""

    def __init__(self, pair: Pair, transfer: Transfer = "http") -> None:
        self.pair = pair
        self.state: State = "asking"
        self.planned: Planned | None = None
        self.error: LocalspecError | None = None
        self.bars: tuple[Bar, ...] = ()
        self._transfer = transfer
        self._news: SimpleQueue[Planned | tuple[Bar, ...] | LocalspecError | None] = SimpleQueue()
        self._cancelled = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        return self.state in ("asking", "fetching", "stopping")

    @property
    def share(self) -> float:
        total = sum(bar.total for bar in self.bars)
        return sum(bar.done for bar in self.bars) / total if total else 0.0

    def ask(self) -> None:
        """Find out what is missing; the answer comes with `poll`."""
        if not self.is_running or self._thread is None:
            self._begin("asking", self._plan)

    def begin(self) -> None:
        """Fetch what is missing, from where an earlier download stopped."""
        if self._thread is None or not self.is_running:
            self._begin("fetching", self._fetch)

    def cancel(self) -> None:
        """What has arrived is kept."""
        if self.is_running:
            self._cancelled.set()
            self.state = "stopping"

    def poll(self) -> bool:
        """Take in what happened since; whether anything did."""
        heard = False
        while True:
            try:
                news = self._news.get_nowait()
            except Empty:
                return heard
            heard = True
            self._hear(news)

    def wait(self, seconds: float) -> None:
        if self._thread:
            self._thread.join(seconds)

    def _hear(self, news: Planned | tuple[Bar, ...] | LocalspecError | None) -> None:
        if isinstance(news, Planned):
            self.planned = news
            self.state = "planned" if self.state == "asking" else self.state
        elif isinstance(news, tuple):
            self.bars = news
        elif news is None:
            self.state = "whole"
        else:
            self.error = news
            self.state = "stopped" if news.exit_code == 130 else "failed"

    def _begin(self, state: State, work: _Work) -> None:
        self.state, self.error = state, None
        self._cancelled = cancelled = threading.Event()
        self._thread = threading.Thread(target=self._guarded, args=(work, cancelled), daemon=True)
        self._thread.start()

    def _guarded(self, work: _Work, cancelled: threading.Event) -> None:
        """Whatever goes wrong on the thread is news, too."""
        try:
            work(cancelled)
        except LocalspecError as error:
            self._news.put(error)
        except Exception as error:
            log.exception("bug in a download")
            self._news.put(LocalspecError(f"The download met a bug: {error!r}.", "Enter goes on where it stopped."))

    def _plan(self, cancelled: threading.Event) -> Plan:
        from localspec import hub

        plan = hub.plan(self.pair)
        if cancelled.is_set():
            raise hub.Cancelled()
        self._news.put(Planned(plan, hub.free_bytes(plan.cache)))
        return plan

    def _fetch(self, cancelled: threading.Event) -> None:
        from localspec import hub
        from localspec.shelf.progress import Sums, pace

        plan = self._plan(cancelled)
        sums, paces = Sums(plan), dict[str, str]()

        def bars() -> tuple[Bar, ...]:
            return tuple(
                Bar(role, done := sums.here(role), total, paces.get(role, "") if done < total else "")
                for role, total in sums.totals.items()
            )

        def report(progress: Progress) -> None:
            sums.add(progress)
            paces[progress.role] = pace(progress)
            self._news.put(bars())

        self._news.put(bars())
        hub.fetch(plan, report, cancelled.is_set, transfer=self._transfer)
        self._news.put(None)


class Downloads:
    """All downloads of this run, the latest first, each pair once."""

    def __init__(self, transfer: Transfer = "http") -> None:
        self._transfer = transfer
        self._of: dict[str, Download] = {}

    def __iter__(self) -> Iterator[Download]:
        return reversed(self._of.values())

    def __len__(self) -> int:
        return len(self._of)

    def get(self, name: str) -> Download | None:
        return self._of.get(name)

    def of(self, pair: Pair) -> Download:
        if pair.name not in self._of:
            self._of[pair.name] = Download(pair, self._transfer)
        return self._of[pair.name]

    def forget(self, download: Download) -> None:
        """One that never began needs no row."""
        self._of.pop(download.pair.name, None)

    def poll(self) -> list[Download]:
        """Those of which there is news."""
        return [each for each in self._of.values() if each.poll()]

    def close(self) -> None:
        """Stop all; what has arrived is kept."""
        for each in self:
            each.cancel()
        for each in self:
            each.wait(_GOODBYE_S)
