"""GGUF files that are damaged or hostile, through `inspect`, through the loading of a chat, and through `run`."""

from __future__ import annotations

import json
import os
import re
import resource
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from faults.attack import Case, Trial, attack
from faults.engine import Chat, chat
from faults.mutations import Mutation, mutations
from faults.program import localspec
from localspec.engine.messages import Died, Event, Failed, Finished, Ready
from localspec.errors import LocalspecError
from localspec.gguf import check
from tests import ggufs, ggufs_mtp
from tests.engine.test_apart import killer

_DOOR = "GGUF files"
BOUND_S = 10.0
_ROOM = 1 << 30  # that a file may take beside its own size
_FENCE = 8 << 30  # of address space: far beyond the bar, so that a fault is seen and the machine survives it
_SOUND = {
    "llama": ggufs.noise,
    "mamba": ggufs.recur,
    "qwen35": ggufs.hybrid,
    "gemma3": ggufs.window,
    "sentencepiece": ggufs.emoji,
    "prediction layers": ggufs_mtp.qwen35,
}


class Inspector:
    """The process of inspector.py; started again when it ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Inspector:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self._end()

    def __call__(self, path: Path) -> str | None:
        """What went wrong."""
        process = self._process = self._process or _started()
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(str(path)) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], BOUND_S)
        line = process.stdout.readline() if ready else ""
        if line:
            return _fault(json.loads(line), path)
        self._end()
        return f"inspect ended with {process.returncode}" if ready else f"inspect took more than {BOUND_S:.0f} s"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _started() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "faults.inspector", str(_FENCE)]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, text=True, **pipes)


def _fault(report: dict[str, Any], path: Path) -> str | None:
    said = report["said"]
    if report["crash"]:
        return str(report["crash"])[-300:]
    if report["code"] not in (0, 1):
        return f"inspect ended with code {report['code']}: {said[:200]!r}"
    if report["code"] == 1 and not re.search(r"^Complete +no: .{8}|^localspec: Cannot load .+: .{8}", said, re.M):
        return f"no reason is given: {said[:200]!r}"
    if len(said) > 10_000 or "\x1b" in said:
        return f"it prints what it should not: {said[:200]!r}"
    if report["peak"] > _ROOM + _size(path):
        return f"inspect took {report['peak'] >> 20} MB"
    return None


class Loader:
    """A chat's engine process that is asked to load files and to answer."""

    def __init__(self, chat: Chat) -> None:
        self._chat = chat
        self._start()

    def __call__(self, path: Path) -> str | None:
        Path(f"/proc/{self._chat.client.pid}/clear_refs").write_text("5")  # the peak of memory begins anew
        self._chat.load(path)
        event = self._chat.wait(Ready, Failed, Died, seconds=BOUND_S)
        if isinstance(event, Ready):
            self._chat.ask()
            event = self._chat.wait(Finished, Failed, Died, seconds=BOUND_S)
        wrong = _told(event)
        if not wrong and not isinstance(event, Died) and (peak := self._peak()) > _ROOM + _size(path):
            wrong = f"the engine took {peak >> 20} MB"
        if wrong or isinstance(event, Died):
            self._start()
        return wrong

    def _start(self) -> None:
        self._chat.client.start()
        assert self._chat.client.pid is not None
        resource.prlimit(self._chat.client.pid, resource.RLIMIT_AS, (_FENCE, _FENCE))

    def _peak(self) -> int:
        try:
            status = Path(f"/proc/{self._chat.client.pid}/status").read_text()
        except OSError:
            return 0
        found = re.search(r"VmHWM:\s+(\d+)", status)
        return int(found[1]) << 10 if found else 0


def _told(event: Event | None) -> str | None:
    """A death is allowed: the chat lives on, and says how it came about."""
    match event:
        case None:
            return f"the engine took more than {BOUND_S:.0f} s"
        case Failed() if "Internal error" in event.message or len(event.message) < 12:
            return event.message
        case Died() if "signal" not in event.how:
            return event.how
    return None


def _size(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _files(trial: Trial, portion: int) -> Iterator[tuple[Mutation, Path]]:
    """Each mutation of each sound file, in a folder that is gone afterwards."""
    for kind, make in _SOUND.items():
        sound = make(trial.folder / "sound.gguf").read_bytes()
        for number, each in enumerate(mutations(kind, sound, trial.luck, portion)):
            folder = trial.folder / f"{kind}-{number}"
            folder.mkdir()
            yield each, each.make(folder)
            shutil.rmtree(folder)


@attack(_DOOR, "inspect", brief=60)
def inspecting(trial: Trial) -> Iterator[Case]:
    with Inspector() as inspect:
        for each, path in _files(trial, trial.few(5, 40)):
            yield each.name, inspect(path)


@attack(_DOOR, "loading and asking in a chat's engine", brief=25)
def loading(trial: Trial) -> Iterator[Case]:
    with chat(trial.folder) as opened:
        load = Loader(opened)
        for each, path in _files(trial, trial.few(3, 120)):
            yield each.name, load(path)


@attack(_DOOR, "random headers, to the reader alone", brief=2000)
def reading(trial: Trial) -> Iterator[Case]:
    """Most of these fail early; that they fail with a reason is what is asked."""
    sound = ggufs.noise(trial.folder / "sound.gguf").read_bytes()[:12_000]
    path = trial.folder / "m.gguf"
    for number in range(trial.few(20_000, 2000)):
        data = bytearray(sound[: trial.luck.randrange(len(sound))])
        for _ in range(trial.luck.randrange(6)):
            if data:
                at = trial.luck.randrange(len(data))
                data[at : at + 8] = trial.luck.choice(
                    (b"\xff" * 8, bytes(8), trial.luck.randbytes(8), b"\x09\0\0\0")
                )
        path.write_bytes(data)
        try:
            check(str(path))
        except LocalspecError:
            yield f"header {number}", None
        except Exception as error:
            yield f"header {number}", repr(error)
        else:
            yield f"header {number}", "it was accepted"


@attack(_DOOR, "run from the command line", brief=1)
def running(trial: Trial) -> Iterator[Case]:
    makers = {
        "a file that ends llama.cpp": killer,
        "cut": lambda folder: _cut(ggufs.noise(folder / "m.gguf")),
        "empty": lambda folder: _written(folder / "m.gguf", b""),
        "a folder": lambda folder: folder,
        "NaN": lambda folder: ggufs.noise(folder / "m.gguf", extra={"llama.rope.freq_base": float("nan")}),
        "no such file": lambda folder: folder / "none.gguf",
        "a device": lambda folder: Path(os.devnull),
        "a pipe that nobody writes to": lambda folder: _pipe(folder / "m.gguf"),
        "a link to itself": lambda folder: _loop(folder / "m.gguf"),
        "a name with line feeds": lambda folder: ggufs.noise(folder / "a\nb\x1b[31m.gguf", layers=0),
    }
    for name, make in makers.items():
        folder = trial.folder / name.replace(" ", "-")
        folder.mkdir()
        target = make(folder)
        for command in (("run", "hi", "--target", str(target), "--threads", "1"),):
            done, seconds = localspec(trial.folder, *command)
            wrong = None
            if seconds > 3 * BOUND_S:
                wrong = f"it took {seconds:.0f} s"
            elif done.returncode not in (0, 1) or "Traceback" in done.stderr or "\x1b" in done.stderr + done.stdout:
                wrong = f"code {done.returncode}: {done.stderr[-300:]!r}"
            elif done.returncode == 1 and len(done.stderr + done.stdout) < 20:
                wrong = "no reason is given"
            yield f"{command[0]}: {name}", wrong


def _cut(path: Path) -> Path:
    return _written(path, path.read_bytes()[:-1000])


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


def _loop(path: Path) -> Path:
    path.symlink_to(path)
    return path
