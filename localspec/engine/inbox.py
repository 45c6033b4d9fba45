"""Commands waiting for the engine. The one object that two threads share; everything else is single-threaded."""

from __future__ import annotations

import threading
from collections import deque

from localspec.engine.messages import Command, Stop, Use


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
        """Whether the running work should end: a Stop (taken), or any command that needs the engine (left)."""
        with self._arrived:
            if not self._commands or isinstance(self._commands[0], Use):
                return False
            if isinstance(self._commands[0], Stop):
                self._commands.popleft()
            return True

    def switch(self) -> Use | None:
        """A change of method that is waiting, taken."""
        with self._arrived:
            if self._commands and isinstance(self._commands[0], Use):
                command = self._commands.popleft()
                assert isinstance(command, Use)
                return command
            return None
