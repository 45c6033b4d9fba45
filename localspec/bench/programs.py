"""A llama-server that is started for a benchmark, on the model and settings that localspec has loaded, and ended with
it. `--peer llama-server=PATH`; words behind the path are handed to the program."""

from __future__ import annotations

import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic, sleep
from typing import IO

from localspec.bench.peers import Site, visit
from localspec.bench.runner import Gone
from localspec.errors import LocalspecError, UsageError
from localspec.model import ModelInfo

_KNOWN = ("llama-server",)
_LINES = 3  # of its log, in an error
START_S = 120.0  # for a large model on a slow disk


@dataclass(frozen=True, slots=True)
class Program:
    path: str
    arguments: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """`llama-server`, and of its arguments the values, which tell two of them apart."""
        words = [word for word in self.arguments if not word.startswith("-")]
        return " ".join(("llama-server", *words))


def read(text: str) -> Program:
    """`llama-server=PATH [ARGUMENTS]`."""
    name, equals, rest = text.partition("=")
    try:
        words = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"--peer is {text!r}: {error}.", "Close the quotes.") from None
    if name not in _KNOWN or not equals or not words:
        raise UsageError(
            f"--peer is {text!r}.", "Write --peer llama-server=PATH, and a --peer-url for other servers."
        )
    path = shutil.which(words[0])
    if path is None:
        raise UsageError(
            f"{words[0]} is no program.", "Build one with scripts/build_peer.py, or give the path of yours."
        )
    return Program(path, tuple(words[1:]))


def command(program: Program, model: ModelInfo, port: int) -> list[str]:
    """With the settings that were chosen for localspec."""
    settings = {
        "-m": model.path,
        "-c": model.n_ctx,
        "-t": model.threads,
        "-tb": model.threads,
        "-ngl": model.gpu_layers,
        "-fa": "on" if model.flash_attn else "off",
        "-ctk": model.cache_type_k,
        "-ctv": model.cache_type_v,
        "-np": 1,
        "--host": "127.0.0.1",
        "--port": port,
    }
    return [program.path, *(str(word) for pair in settings.items() for word in pair), *program.arguments]


@contextmanager
def running(program: Program, model: ModelInfo) -> Iterator[Site]:
    """Until the block is left. Raises LocalspecError where it does not start."""
    port = _free_port()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command(program, model, port), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
        previous = signal.signal(signal.SIGTERM, _leave)
        try:
            yield _started(process, f"http://127.0.0.1:{port}", log)
        finally:
            _end(process)
            signal.signal(signal.SIGTERM, previous)


def _started(process: subprocess.Popen[bytes], url: str, log: IO[bytes]) -> Site:
    deadline = monotonic() + START_S
    while monotonic() < deadline:
        if process.poll() is not None:
            raise LocalspecError(f"llama-server ended with code {process.returncode}. {_tail(log)}")
        try:
            return visit(url)
        except Gone:  # it still loads
            sleep(0.1)
    raise LocalspecError(f"llama-server did not answer within {START_S:.0f} s. {_tail(log)}")


def _leave(*_: object) -> None:
    """A benchmark that is ended from outside takes its servers with it."""
    raise SystemExit(143)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: IO[bytes]) -> str:
    log.seek(0)
    lines: Sequence[str] = log.read().decode("utf-8", "replace").split("\n")
    return " / ".join(line.strip() for line in lines if line.strip())[-300:] if lines else ""


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
