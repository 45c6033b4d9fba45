"""Commands waiting for the engine. The one object that two threads share; everything else is single-threaded."""

from __future__ import annotations

import threading
from collections import deque

from localspec.engine.messages import Command, Load, Quit, Stop, Unload, Use


class Inbox:
    def __init__(self) -> None:
        self._commands: deque[Command] = deque()
        self._arrived = threading.Condition()

    def put(self, command: Command) -> None:
        with self._arrived:
            self._commands.append(command)
            self._arrived.notify()

    def take(self) -> Command:
        """The next command; waits for one."""
        with self._arrived:
            self._arrived.wait_for(lambda: bool(self._commands))
            return self._commands.popleft()

    def interrupted(self) -> bool:
        """Whether the running work should end: a Stop (taken; it is queued behind nothing), or a command that
        replaces the model or ends the engine (left). Another answer that waits is no reason."""
        if not self._commands:  # asked after each round
            return False
        with self._arrived:
            stop = next((c for c in self._commands if isinstance(c, Stop)), None)
            if stop is not None:
                self._commands.remove(stop)
            return stop is not None or any(isinstance(c, Load | Unload | Quit) for c in self._commands)

    def switch(self) -> Use | None:
        """A change of method that is waiting, taken."""
        if not self._commands:
            return None
        with self._arrived:
            if self._commands and isinstance(self._commands[0], Use):
                command = self._commands.popleft()
                assert isinstance(command, Use)
                return command
            return None
