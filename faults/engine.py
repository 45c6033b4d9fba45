"""An engine process to attack, what it says, and the memory that it takes."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localspec.chat.message import Message
from localspec.engine.messages import Died, Event, Failed, Finished, Generate, Load
from localspec.engine.process import ProcessClient
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling

_PATIENCE_S = 20.0


class Chat:
    """An engine process and what it says."""

    def __init__(self, folder: Path) -> None:
        self._woken = threading.Event()
        self.client = ProcessClient(folder / "engine.log", self._woken.set)
        self._turn = 0

    def load(self, model: Path) -> None:
        self.client.send(Load(ModelSpec(str(model), threads=1)))

    def ask(self, text: str = "hello", most: int | None = 3) -> None:
        self._turn += 1
        messages = (Message("user", text),)
        self.client.send(Generate(self._turn, messages=messages, sampling=Sampling(seed=1), max_tokens=most))

    def wait(self, *kinds: type[Event], seconds: float = _PATIENCE_S) -> Event | None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for event in self.client.poll():
                if isinstance(event, kinds):
                    return event
            self._woken.wait(0.02)
            self._woken.clear()
        return None

    def answers(self, model: Path) -> bool:
        """After a start."""
        self.client.start()
        self.load(model)
        self.ask()
        return isinstance(self.wait(Finished, Failed, Died), Finished)


@contextmanager
def chat(folder: Path) -> Iterator[Chat]:
    opened = Chat(folder)
    try:
        yield opened
    finally:
        opened.client.close()


def resident(pid: int | None = None) -> int:
    gc.collect()  # costs as much as there is to look through: not to be called often
    return int(Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
