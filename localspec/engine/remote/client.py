"""The remote engine on a thread, as interfaces use it: commands in, events out, nothing that waits."""

from __future__ import annotations

import threading
from collections import deque

from localspec.engine.inbox import Inbox
from localspec.engine.messages import Command, Event, Quit
from localspec.engine.remote.engine import RemoteEngine
from localspec.engine.remote.site import Address

_PATIENCE_S = 2.0


class RemoteClient:
    """The EngineClient of client.py. No call blocks but `close`, and that not for long."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._events: deque[Event] = deque()
        self._inbox = Inbox()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self.close()
        self._events, self._inbox = deque(), Inbox()
        self._thread = threading.Thread(target=_run, args=(self._address, self._events, self._inbox), daemon=True)
        self._thread.start()

    def send(self, command: Command) -> None:
        self._inbox.put(command)

    def poll(self) -> list[Event]:
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._inbox.put(Quit())
            thread.join(_PATIENCE_S)


def _run(address: Address, events: deque[Event], inbox: Inbox) -> None:
    engine = RemoteEngine(address, events.append, inbox)
    while not isinstance(command := inbox.take(), Quit):
        engine.handle(command)
    engine.close()
