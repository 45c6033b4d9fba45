"""The engine behind a pipe, in a child process, and the client that interfaces use.

llama.cpp ends the process on an assertion, a driver can take it down, and native code writes to descriptors 1 and
2: a chat must survive all three. The child takes no keyboard interrupt, writes to the log only, and ends when its
parent is gone.
"""

from __future__ import annotations

import faulthandler
import logging
import multiprocessing
import os
import queue
import re
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from localspec.engine.inbox import Inbox
from localspec.engine.messages import Command, Died, Event, Quit

_LOG_LINES = 20
_LOG_BYTES = 1_000_000
# What ggml and the C++ library print before they end the process.
_LAST_WORDS = re.compile(r"^(?:\S+\.\w+:\d+: |  what\(\):  )(.+)$", re.MULTILINE)


class ProcessClient:
    """Starts, talks to and outlives an engine process. No call blocks, so a screen may use it directly."""

    def __init__(self, log_file: Path, wake: Callable[[], None] = lambda: None) -> None:
        """`wake` is called, on another thread, whenever `poll` has something new."""
        self._log_file, self._wake = log_file, wake
        self._events: deque[Event] = deque()
        self._process: BaseProcess | None = None
        self._begins = 0  # the place in the log from which on it is this process's
        self._outgoing: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        if sys.platform != "win32":
            # Started with the first child, it would inherit a standard error that a screen has replaced by then
            # with one of descriptor -1, and fail.
            resource_tracker.ensure_running()

    def start(self) -> None:
        """Start the process; a living one is ended first."""
        self.close()
        self._events.clear()
        self._begins = _size(self._log_file)
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_child, args=(theirs, str(self._log_file)), daemon=True, name="engine")
        process.start()
        theirs.close()
        self._process, self._outgoing = process, queue.SimpleQueue()
        # Threads at both ends: a child that is stopped in mid-message must not stop the screen.
        threading.Thread(target=_write, args=(ours, self._outgoing), daemon=True).start()
        threading.Thread(target=self._read, args=(ours, process), daemon=True).start()

    def send(self, command: Command) -> None:
        self._outgoing.put(command)

    def poll(self) -> list[Event]:
        """Everything that has arrived; Died once, when the process is gone."""
        events = []
        while self._events:
            events.append(self._events.popleft())
        return events

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._outgoing.put(Quit())
        self._outgoing.put(None)
        process.join(1.0)
        if process.is_alive():
            process.kill()
            process.join(1.0)

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _read(self, connection: Connection, process: BaseProcess) -> None:
        try:
            while True:
                self._events.append(connection.recv())
                self._wake()
        except Exception:  # end of file, or garbage from a dying process: both mean that nothing more will come
            process.join(2.0)
            if process.is_alive():
                process.kill()
                process.join()
        if process is self._process:
            self._outgoing.put(None)
            how = _how(process.exitcode) + _last_words(self._log_file, self._begins)
            self._events.append(Died(how, _tail(self._log_file)))
            self._wake()


def _write(connection: Connection, outgoing: queue.SimpleQueue[Command | None]) -> None:
    try:
        while (command := outgoing.get()) is not None:
            connection.send(command)
    except OSError:
        pass  # the reader sees the same end of the pipe, and reports it


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "it no longer answered"
    if exit_code < 0:
        try:
            return f"killed by signal {-exit_code} ({signal.Signals(-exit_code).name})"
        except ValueError:
            return f"killed by signal {-exit_code}"
    return f"it ended with exit code {exit_code}"


def _last_words(path: Path, begins: int) -> str:
    """Why native code ended the process, in its own words; empty where it said nothing."""
    begins = begins if begins <= _size(path) else 0  # a long log is begun anew
    found = _LAST_WORDS.findall(_end(path, max(begins, _size(path) - 65_536)))
    return f": {found[-1].strip()[:200]}" if found else ""


def _tail(path: Path) -> tuple[str, ...]:
    return tuple(_end(path, max(0, _size(path) - 8192)).splitlines()[-_LOG_LINES:])


def _end(path: Path, begins: int) -> str:
    try:
        with path.open("rb") as file:
            file.seek(begins)
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _child(connection: Connection, log_file: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C is for the interface, which sends Stop
    _redirect(log_file)
    inbox = Inbox()
    threading.Thread(target=_listen, args=(connection, inbox), daemon=True).start()
    from localspec.engine.engine import Engine

    engine = Engine(connection.send, inbox)
    while not isinstance(command := inbox.take(), Quit):
        engine.handle(command)
    engine.close()


def _redirect(log_file: str) -> None:
    # A failed assertion prints to descriptor 2; without the backtrace it dies in milliseconds instead of seconds.
    os.environ["GGML_NO_BACKTRACE"] = "1"
    try:
        # Appended to, since two chats may share it, until it is large.
        fresh = os.O_TRUNC if os.path.exists(log_file) and os.path.getsize(log_file) > _LOG_BYTES else 0
        target = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | fresh, 0o600)
    except OSError:
        target = os.open(os.devnull, os.O_WRONLY)
    os.dup2(target, 1)
    os.dup2(target, 2)
    faulthandler.enable(2)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")


def _listen(connection: Connection, inbox: Inbox) -> None:
    try:
        while True:
            inbox.put(connection.recv())
    except (EOFError, OSError):
        os._exit(0)  # the parent is gone; a load or a decode may be running, and nobody waits for it
