"""A real `localspec serve` on a free port, with a tiny model, shared by the tests of a run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

PROGRAM = (sys.executable, "-c", "from localspec.cli import main; main()")
PATIENCE_S = 60


class Server:
    """`localspec serve` in a process of its own, with a home of its own."""

    def __init__(self, home: Path, model: str, *flags: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCALSPEC_", "XDG_"))}
        command = [*PROGRAM, "serve", "--target", model, "--threads", "1", "--port", "0", *flags]
        self.process = subprocess.Popen(command, env=kept | {"HOME": str(home)}, stderr=subprocess.PIPE, text=True)
        self.said: list[str] = []
        self.port = int(self._wait(r":(\d+)/v1")[1])
        self._wait("is ready")
        threading.Thread(target=self._drain, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def engine(self) -> int:
        """The process with the model."""
        pid = self.process.pid
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
        raise AssertionError("there is no engine")

    @property
    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def post(self, path: str, body: Any, **options: Any) -> httpx2.Response:
        return httpx2.post(self.url + path, json=body, timeout=PATIENCE_S, **options)

    def get(self, path: str, **options: Any) -> httpx2.Response:
        return httpx2.get(self.url + path, timeout=PATIENCE_S, **options)

    def chat(self, text: str = "abc", **fields: Any) -> httpx2.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **fields})

    def counter(self, name: str) -> float:
        found = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", self.get("/metrics").text, re.MULTILINE)
        return sum(map(float, found))

    def close(self, by: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(by)
        return self.process.wait(PATIENCE_S)

    def _wait(self, pattern: str) -> re.Match[str]:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the server ended: {''.join(self.said)}")

    def _drain(self) -> None:
        assert self.process.stderr is not None
        self.said.extend(self.process.stderr)


Start = Callable[..., Server]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory, noise: str) -> Iterator[Start]:
    """A server with these flags, ended with the tests."""
    started: list[Server] = []

    def one(*flags: str, model: str = noise) -> Server:
        started.append(server := Server(tmp_path_factory.mktemp("home"), model, *flags))
        return server

    yield one
    for server in started:
        server.process.kill()
        server.process.wait()
        assert server.process.stderr is not None


@pytest.fixture(scope="session")
def server(start: Start) -> Server:
    return start("--queue", "3", "--max-body", "65536")


def eventually(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)
