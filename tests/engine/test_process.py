"""The engine in its own process: it may die in any way, and the interface lives on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localspec.chat.message import Message
from localspec.engine.messages import Died, Emitted, Event, Finished, Generate, Load, Ready, Stop
from localspec.engine.process import ProcessClient
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish

PATIENCE_S = 60


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ProcessClient]:
    client = ProcessClient(tmp_path / "engine.log")
    yield client
    client.close()


def wait_for(client: ProcessClient, done: Callable[[Event], bool]) -> list[Event]:
    """All events up to the first for which `done` is true."""
    events: list[Event] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for event in client.poll():
            events.append(event)
            if done(event):
                return events
        time.sleep(0.01)
    raise AssertionError(f"never came; the last events were {events[-3:]}")


def a(kind: type[Event]) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, kind)


def ask(turn: int, **options: object) -> Generate:
    return Generate(turn, messages=(Message("user", "hello"),), sampling=Sampling(seed=1), **options)  # type: ignore[arg-type]


def load(path: str) -> Load:
    return Load(ModelSpec(path, threads=1))


def test_kill_in_mid_answer_is_reported_and_a_restart_answers_again(client: ProcessClient, noise: str) -> None:
    client.start()
    client.send(load(noise))
    wait_for(client, a(Ready))
    client.send(ask(1))
    wait_for(client, a(Emitted))
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    died = wait_for(client, a(Died))[-1]
    assert isinstance(died, Died)
    assert "SIGKILL" in died.how
    client.start()
    client.send(load(noise))
    client.send(ask(2, max_tokens=5))
    finished = wait_for(client, a(Finished))[-1]
    assert isinstance(finished, Finished)
    assert finished.reason is Finish.LENGTH


def test_aborting_native_code_leaves_its_last_words_in_the_report(client: ProcessClient, noise: str) -> None:
    client.start()
    client.send(load(noise))
    wait_for(client, a(Ready))
    assert client.pid is not None
    os.kill(client.pid, signal.SIGABRT)
    died = wait_for(client, a(Died))[-1]
    assert isinstance(died, Died)
    assert "SIGABRT" in died.how
    assert died.lines, "the log's tail belongs to the report"


def test_stop_ends_an_endless_answer(client: ProcessClient, noise: str) -> None:
    client.start()
    client.send(load(noise))
    client.send(ask(1))
    wait_for(client, a(Emitted))
    client.send(Stop())
    finished = wait_for(client, a(Finished))[-1]
    assert isinstance(finished, Finished)
    assert finished.reason in (Finish.CANCELLED, Finish.STOP)


def test_stopped_child_blocks_neither_poll_nor_send(client: ProcessClient, noise: str) -> None:
    client.start()
    client.send(load(noise))
    wait_for(client, a(Ready))
    assert client.pid is not None
    os.kill(client.pid, signal.SIGSTOP)
    started = time.monotonic()
    for turn in range(50):  # far more than a pipe holds
        client.send(Generate(turn, prompt="x" * 100_000))
        client.poll()
    assert time.monotonic() - started < PATIENCE_S / 10
    os.kill(client.pid, signal.SIGKILL)
    wait_for(client, a(Died))


def test_closing_is_silent_and_leaves_no_process(client: ProcessClient, noise: str) -> None:
    client.start()
    client.send(load(noise))
    wait_for(client, a(Ready))
    pid = client.pid
    assert pid is not None
    client.close()
    assert client.poll() == []
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_child_ends_when_its_parent_is_killed(noise: str, tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from localspec.engine.messages import Generate, Load, Ready\n"
        "from localspec.engine.process import ProcessClient\n"
        "from localspec.model import ModelSpec\n"
        "if __name__ == '__main__':\n"
        "    client = ProcessClient(Path(sys.argv[2]))\n"
        "    client.start()\n"
        "    client.send(Load(ModelSpec(sys.argv[1], threads=1)))\n"
        "    while not any(isinstance(event, Ready) for event in client.poll()): time.sleep(0.01)\n"
        "    print(client.pid, flush=True)\n"
        "    client.send(Generate(1, prompt='x'))\n"
        "    time.sleep(600)\n"
    )
    script = tmp_path / "parent.py"
    script.write_text(program)
    parent = subprocess.Popen([sys.executable, script, noise, tmp_path / "log"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and _lives(child):
        time.sleep(0.02)
    assert not _lives(child)


def _lives(pid: int) -> bool:
    """Whether the process runs; one that ended and waits for an init to collect it does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").exists()
    return state != "Z"
