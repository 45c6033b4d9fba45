"""The engine, and the requests that wait for it: one at a time, in order of arrival, and no more than so many.

An engine that dies takes the requests at hand with it and is started again. Knows no HTTP.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from itertools import count
from time import monotonic
from typing import TypeAlias

from localspec.engine.client import EngineClient
from localspec.engine.messages import (
    Died,
    Emitted,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loading,
    Prefill,
    Ready,
    Stop,
)
from localspec.serve.metrics import Metrics
from localspec.serve.refusal import Refused, failed, unavailable

_PAUSES_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0)  # before an engine that died is started again
_USUAL_S = 5.0  # what an answer takes, before there was one

News: TypeAlias = Prefill | Emitted | Finished | Refused
Connect: TypeAlias = Callable[[Callable[[], None]], EngineClient]


@dataclass(slots=True, eq=False)
class Job:
    """One request on its way. Its news end with Finished or Refused."""

    command: Generate
    news: asyncio.Queue[News] = field(default_factory=asyncio.Queue)
    began: float | None = None

    async def follow(self, patience_s: float) -> AsyncIterator[News | None]:
        """Everything that happens to it; None whenever nothing did for so long."""
        while True:
            try:
                news = await asyncio.wait_for(self.news.get(), patience_s)
            except TimeoutError:
                yield None
                continue
            yield news
            if isinstance(news, Finished | Refused):
                return


class Desk:
    """`connect` gets a function that tells, from any thread, that the engine has something to say."""

    def __init__(self, connect: Connect, load: Load, queue: int) -> None:
        self.metrics = Metrics()
        self.ready: Ready | None = None
        self.failure: Failed | None = None  # the first load did not succeed: there is nothing to serve
        self._woken = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._client = connect(lambda: _tell(loop, self._woken))
        self._load, self._queue = load, queue
        self._waiting: deque[Job] = deque()
        self._running: Job | None = None
        self._turns = count(1)
        self._usual_s = _USUAL_S
        self._deaths = 0
        self._closing = False
        self._restart: asyncio.TimerHandle | None = None
        self._state = "The model is being loaded."

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def running(self) -> int:
        return int(self._running is not None)

    @property
    def state(self) -> str:
        """Why there is no answer just now."""
        return self._state

    def ask(self, command: Generate) -> Job:
        """Queue a request; raises Refused where there is no engine or no room."""
        if self._closing or self.ready is None:
            raise unavailable(self._state)
        if self._running and len(self._waiting) >= self._queue:
            after = max(1, round(self._usual_s))
            text = f"{len(self._waiting)} requests are waiting already."
            raise Refused(429, text, code="queue_full", headers={"Retry-After": str(after)})
        job = Job(replace(command, turn=next(self._turns)))
        self._waiting.append(job)
        self._next()
        return job

    def cancel(self, job: Job) -> None:
        """The client is gone: end the answer after the current round, or never begin it."""
        if job is self._running:
            self._client.send(Stop())
        elif job in self._waiting:
            self._waiting.remove(job)
            job.news.put_nowait(Refused(499, "The client went away."))

    async def run(self) -> None:
        """Until it is cancelled, or the first load fails."""
        try:
            self._start()
            while self.failure is None:
                await self._woken.wait()
                self._woken.clear()
                for event in self._client.poll():
                    self._take(event)
        finally:
            if self._restart:
                self._restart.cancel()
            await asyncio.to_thread(self._client.close)

    async def close(self, grace_s: float) -> None:
        """Refuse what waits, let the running answer end, and stop it when it takes longer than this."""
        self._closing, self._state = True, "The server is shutting down."
        self._refuse_waiting()
        until = monotonic() + grace_s
        while self._running and monotonic() < until:
            await asyncio.sleep(0.05)
        if job := self._running:
            job.news.put_nowait(unavailable(self._state))
            self._client.send(Stop())

    def _start(self) -> None:
        self._client.start()
        self._client.send(self._load)

    def _next(self) -> None:
        if self._running is None and self._waiting and self.ready:
            self._running = job = self._waiting.popleft()
            job.began = monotonic()
            self._client.send(job.command)

    def _take(self, event: Event) -> None:
        job = self._running
        match event:
            case Ready():
                self.ready, self._state = event, ""
                self.metrics.loads += 1
                self._next()
            case Loading():
                self._state = f"The model is being loaded: {event.fraction:.0%}."
            case Died():
                self._died(event)
            case Failed(turn=None):
                self._failed(event)
            case Prefill() | Emitted() if job and event.turn == job.command.turn:
                self.metrics.see(event)
                job.news.put_nowait(event)
            case Finished() | Failed() if job and event.turn == job.command.turn:
                self._end(job, event)

    def _end(self, job: Job, event: Finished | Failed) -> None:
        self._running, self._deaths = None, 0
        if isinstance(event, Finished):
            took = monotonic() - (job.began or monotonic())
            self._usual_s += (took - self._usual_s) / 4
            self.metrics.end(event)
        job.news.put_nowait(event if isinstance(event, Finished) else failed(event))
        self._next()

    def _died(self, event: Died) -> None:
        job, self._running, self.ready = self._running, None, None
        self._state = f"The engine stopped ({event.how}) and is being started again."
        if job:
            job.news.put_nowait(Refused(500, f"The engine stopped: {event.how}.", code="engine_died"))
        self._refuse_waiting()
        self._again()

    def _failed(self, event: Failed) -> None:
        """A load that fails after one that succeeded may succeed later: the disk is back, the memory free."""
        if self.metrics.loads == 0:
            self.failure = event
            return
        self._state = f"{event.message} {event.hint}".strip()
        self._again()

    def _again(self) -> None:
        if self.metrics.loads == 0:
            self.failure = Failed(self._state, "`localspec doctor` says what this installation can do.")
            return
        pause = _PAUSES_S[min(self._deaths, len(_PAUSES_S) - 1)]
        self._deaths += 1
        self.metrics.restarts += 1
        self._restart = asyncio.get_running_loop().call_later(pause, self._start)

    def _refuse_waiting(self) -> None:
        while self._waiting:
            self._waiting.popleft().news.put_nowait(unavailable(self._state))


def _tell(loop: asyncio.AbstractEventLoop, woken: asyncio.Event) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(woken.set)
