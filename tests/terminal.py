"""The real program in a pseudo-terminal, read through a terminal emulator: what a person would see."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyte

PATIENCE_S = 90
PROGRAM = "from localspec.cli import main; main()"


class Terminal:
    """Starts `localspec` with these arguments on a terminal of `columns` x `lines`. Close it."""

    def __init__(self, arguments: Sequence[str], home: Path, columns: int = 120, lines: int = 36) -> None:
        self._screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self._screen)
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(home)
            kept = {k: v for k, v in os.environ.items() if not k.startswith(("LOCALSPEC_", "XDG_", "TEXTUAL"))}
            # Three seconds of animation would make every screen a matter of luck.
            fixed = {
                "HOME": str(home),
                "TERM": "xterm-256color",
                "TEXTUAL_ANIMATIONS": "none",
                "COLORTERM": "truecolor",
            }
            os.execve(sys.executable, [sys.executable, "-c", PROGRAM, *arguments], kept | fixed)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.status: int | None = None

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display)

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def resize(self, columns: int, lines: int) -> None:
        self._screen.resize(lines, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.pid, signal.SIGWINCH)

    def until(self, condition: str | Callable[[str], bool], what: str = "") -> str:
        """Read until the screen shows the text, or meets the condition; returns the screen."""
        met = condition if callable(condition) else lambda screen: condition in screen
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if met(self.text):
                return self.text
            if not self._read(0.1) and self.ended:
                break
        raise AssertionError(f"{what or condition!r} never came; the screen was:\n{self.text}")

    @property
    def ended(self) -> bool:
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self) -> int:
        """Until the program ends; its exit code."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.ended and time.monotonic() < deadline:
            self._read(0.05)
        assert self.status is not None, f"it did not end; the screen was:\n{self.text}"
        return self.status

    def close(self) -> None:
        if not self.ended:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._fd)

    def _read(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # Linux reports the end of a pseudo-terminal this way
            return False
        self._stream.feed(data)
        return bool(data)
