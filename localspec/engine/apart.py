"""An engine in a process of its own, used like one in this process: `handle` returns when the command is over.

For commands that answer once: a file that ends llama.cpp ends the child, and here it becomes a sentence.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from localspec.engine.messages import Command, Died, Event, Failed, Finished, Generate, Load, Ready
from localspec.engine.process import ProcessClient
from localspec.errors import EngineDied, ModelLoadError

_LAST = {Load: (Ready, Failed), Generate: (Finished, Failed)}


class Apart:
    """`emit` receives every event, in order, on the thread that calls `handle`."""

    def __init__(self, emit: Callable[[Event], None], log_file: Path) -> None:
        self._emit, self._arrived = emit, threading.Event()
        self._pending: deque[Event] = deque()
        self._client = ProcessClient(log_file, self._arrived.set)
        self._client.start()

    @property
    def inbox(self) -> Apart:
        """Where a Stop goes while `handle` runs."""
        return self

    def put(self, command: Command) -> None:
        self._client.send(command)

    def handle(self, command: Load | Generate) -> None:
        """Raises EngineDied or ModelLoadError when the process is gone."""
        self._client.send(command)
        while True:
            event = self._next()
            if isinstance(event, Died):
                raise _sentence(event, command)
            self._emit(event)
            if isinstance(event, _LAST[type(command)]):
                return

    def close(self) -> None:
        self._client.close()

    def _next(self) -> Event:
        while not self._pending:
            self._arrived.wait()
            self._arrived.clear()
            self._pending.extend(self._client.poll())
        return self._pending.popleft()


def _sentence(died: Died, command: Load | Generate) -> EngineDied | ModelLoadError:
    if isinstance(command, Generate):
        return EngineDied(died.how, died.lines)
    hint = "It may be damaged: look for another GGUF version of this model."
    return ModelLoadError(command.target.path, f"llama.cpp did not survive it: {died.how}", hint, died.lines)
