"""The engine's process: killed, stopped, starved, talking nonsense, restarted a hundred times, orphaned."""

from __future__ import annotations

import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from faults.attack import Case, Trial, attack
from faults.engine import Chat, chat, resident
from localspec.engine import process
from localspec.engine.messages import (
    Died,
    Emitted,
    Failed,
    Finished,
    Generate,
    Loading,
    Prefill,
    Ready,
)
from tests import ggufs

_DOOR = "The engine's process"
_END_S = 2.0


def _large(trial: Trial) -> Path:
    """Large enough that loading and reading take a moment."""
    return ggufs.noise(trial.folder / "large.gguf", layers=24, ctx=4096)


_LONG = "a question that takes a while to read " * 60
_MOMENTS: dict[str, Callable[[Chat], object]] = {
    "before it loads": lambda it: None,
    "while it loads": lambda it: it.wait(Loading),
    "loaded": lambda it: it.wait(Ready),
    "while it reads": lambda it: (it.ask(_LONG, None), it.wait(Prefill)),
    "while it writes": lambda it: (it.ask("hello", None), it.wait(Emitted)),
}


@attack(_DOOR, "killed", brief=3)
def killed(trial: Trial) -> Iterator[Case]:
    model = _large(trial)
    signals = (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGTERM, signal.SIGBUS)
    with chat(trial.folder) as it:
        for number in range(trial.few(4, 1)):
            for name, reach in _MOMENTS.items():
                how = signals[number % len(signals)]
                it.client.start()
                it.load(model)
                reach(it)
                time.sleep(trial.luck.uniform(0, 0.05))
                pid = it.client.pid
                assert pid is not None
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
                event = it.wait(Died, seconds=3)
                wrong = None
                if not isinstance(event, Died) or how.name not in event.how:
                    wrong = f"the chat was told {event}"
                elif not it.answers(model):
                    wrong = "a restart does not answer"
                yield f"{name}, by {how.name}", wrong


@attack(_DOOR, "stopped and continued", brief=1)
def stopped(trial: Trial) -> Iterator[Case]:
    model = _large(trial)
    with chat(trial.folder) as it:
        for seconds in (0.5, 30.0)[: trial.few(2, 1)]:
            it.client.start()
            it.load(model)
            it.wait(Ready)
            it.ask("hello", 400)
            it.wait(Emitted)
            pid = it.client.pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            began = time.monotonic()
            for _ in range(50):
                it.client.send(Generate(0, prompt="x" * 100_000, max_tokens=1))
                it.client.poll()
            blocked = time.monotonic() - began
            time.sleep(seconds)
            os.kill(pid, signal.SIGCONT)
            wrong = None if isinstance(it.wait(Finished, Died), Finished) else "the answer does not go on"
            yield f"for {seconds} s", f"the chat stood still for {blocked:.1f} s" if blocked > 1 else wrong
        it.client.start()
        it.load(model)
        it.wait(Ready)
        assert it.client.pid is not None
        os.kill(it.client.pid, signal.SIGSTOP)
        began = time.monotonic()
        it.client.close()
        seconds = time.monotonic() - began
        yield "closed while it is stopped", f"that took {seconds:.1f} s" if seconds > 3 else None


@attack(_DOOR, "starved of memory", brief=2)
def starved(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "m.gguf", layers=48)
    with chat(trial.folder) as it:
        for megabytes in (*range(100, 1300, trial.few(100, 600)),):
            it.client.start()
            assert it.client.pid is not None
            resource.prlimit(it.client.pid, resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
            it.load(model)
            it.ask("hello")
            event = it.wait(Finished, Failed, Died)
            yield f"{megabytes} MB", None if event else "nothing was said"
        yield "enough again", None if it.answers(model) else "it does not answer"


def _garbage(connection: Connection, _log: str) -> None:
    os.write(connection.fileno(), b"\0\0\0\x20" + b"\xff" * 32)
    time.sleep(60)


def _half(connection: Connection, _log: str) -> None:
    os.write(connection.fileno(), b"\0\0\x10\0" + b"half")
    os._exit(3)


def _endless(connection: Connection, _log: str) -> None:
    os.write(connection.fileno(), b"\xff\xff\xff\xff" + (1 << 50).to_bytes(8, "big") + b"x" * 100)
    os._exit(3)


def _negative(connection: Connection, _log: str) -> None:
    os.write(connection.fileno(), b"\xff\xff\xff\xff" + b"\xff" * 8)
    time.sleep(60)


def _silent(connection: Connection, _log: str) -> None:
    os.write(connection.fileno(), b"\0\0")
    time.sleep(60)


def _unknown(connection: Connection, _log: str) -> None:
    connection.send({"an event": "that is none"})
    os._exit(0)


@attack(_DOOR, "nonsense on the pipe", brief=1)
def nonsense(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "m.gguf")
    real = process._child
    for child in (_garbage, _half, _endless, _negative, _unknown, _silent):
        with chat(trial.folder) as it:
            process._child = child
            try:
                it.client.start()
            finally:
                process._child = real
            told = it.wait(Died, seconds=6)
            began = time.monotonic()
            it.client.close()
            wrong = None
            if time.monotonic() - began > 3:
                wrong = "closing took too long"
            elif not told and child is not _silent:
                wrong = "nothing was said"
            elif not it.answers(model):
                wrong = "a restart does not answer"
            yield child.__name__, wrong


@attack(_DOOR, "restarts in a row", brief=1)
def restarts(trial: Trial) -> Iterator[Case]:
    model = ggufs.noise(trial.folder / "m.gguf")
    count = trial.few(100, 6)
    with chat(trial.folder) as it:
        for _ in range(3):
            it.answers(model)
        gc.collect()
        files, memory, threads = _descriptors(), resident(), threading.active_count()
        for number in range(count):
            if number % 10 == 0:
                yield f"restart {number} answers", None if it.answers(model) else "it does not"
            it.client.start()
            if number % 3 == 0 and it.client.pid:
                os.kill(it.client.pid, signal.SIGKILL)
                it.wait(Died)
        gc.collect()
        grown = resident() - memory
        trial.say(f"{count} restarts: {grown >> 10:+,} KB, {_descriptors() - files:+} descriptors")
        yield "descriptors", None if _descriptors() <= files + 2 else f"{_descriptors()} after {files}"
        yield "threads", None if threading.active_count() <= threads + 2 else f"{threading.active_count()}"
        yield "memory", None if grown < 20 << 20 else f"it grew by {grown >> 20} MB"
        yield "zombies", None if not (dead := _zombies()) else f"{dead}"


_PARENT = """
import sys, time
from pathlib import Path
from localspec.chat.message import Message
from localspec.engine.messages import Emitted, Generate, Load, Loading, Prefill, Ready
from localspec.engine.process import ProcessClient
from localspec.model import ModelSpec
if __name__ == "__main__":
    kind = {"start": None, "load": Loading, "ready": Ready, "read": Prefill, "write": Emitted}[sys.argv[3]]
    client = ProcessClient(Path(sys.argv[2]))
    client.start()
    client.send(Load(ModelSpec(sys.argv[1], threads=1)))
    if sys.argv[3] in ("read", "write"):
        client.send(Generate(1, messages=(Message("user", "why " * 500),)))
    while kind and not any(isinstance(event, kind) for event in client.poll()):
        time.sleep(0.001)
    print(client.pid, flush=True)
    time.sleep(600)
"""


@attack(_DOOR, "orphaned", brief=1)
def orphaned(trial: Trial) -> Iterator[Case]:
    model, script = _large(trial), trial.folder / "parent.py"
    script.write_text(_PARENT)
    root = str(Path(__file__).parent.parent)
    for moment in ("write", "start", "load", "ready", "read"):
        command = [sys.executable, str(script), str(model), str(trial.folder / "log"), moment]
        environment = {**os.environ, "PYTHONPATH": root}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            family = [child, *_children(child)]
            parent.kill()
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline and any(map(_lives, family)):
            time.sleep(0.02)
        left = [pid for pid in family if _lives(pid)]
        yield f"while it is at: {moment}", f"after {_END_S:.0f} s {len(left)} of it live" if left else None
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def _children(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _zombies() -> int:
    return sum(_state(pid) == "Z" for pid in _children(os.getpid()))


def _lives(pid: int) -> bool:
    return _state(pid) not in ("", "Z")


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""
