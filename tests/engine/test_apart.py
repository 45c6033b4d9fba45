"""The engine behind a pipe for commands that answer once: events as ever, and a death becomes a sentence."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.chat.message import Message
from localspec.engine.apart import Apart
from localspec.engine.messages import Died, Emitted, Event, Finished, Generate, Load, Notice, Ready, Stop
from localspec.engine.process import ProcessClient
from localspec.errors import EngineDied, ModelLoadError
from localspec.model import ModelSpec
from localspec.spec.types import Finish
from tests import ggufs
from tests.conftest import Models


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def engine(events: list[Event], tmp_path: Path) -> Iterator[Apart]:
    engine = Apart(events.append, tmp_path / "engine.log")
    yield engine
    engine.close()


def load(path: str) -> Load:
    return Load(ModelSpec(path, threads=1))


def ask(**options: object) -> Generate:
    return Generate(1, messages=(Message("user", "hello"),), **options)  # type: ignore[arg-type]


def test_events_come_in_order_and_none_is_lost(engine: Apart, events: list[Event], models: Models) -> None:
    engine.handle(load(models("recur")))
    engine.handle(ask(max_tokens=3))
    kinds = [type(event) for event in events]
    assert kinds.index(Ready) < kinds.index(Emitted) < kinds.index(Finished) == len(kinds) - 1
    engine.handle(load(models("noise_no_template")))
    engine.handle(ask(max_tokens=3))
    assert any(isinstance(event, Notice) and "no chat template" in event.text for event in events)


def test_stop_is_heard_while_it_answers(events: list[Event], tmp_path: Path, noise: str) -> None:
    def emit(event: Event) -> None:
        events.append(event)
        if isinstance(event, Emitted):
            engine.inbox.put(Stop())

    engine = Apart(emit, tmp_path / "engine.log")
    engine.handle(load(noise))
    engine.handle(ask())
    engine.close()
    assert isinstance(events[-1], Finished) and events[-1].reason in (Finish.CANCELLED, Finish.STOP)


def test_an_engine_that_dies_is_one_sentence(events: list[Event], tmp_path: Path, noise: str) -> None:
    def emit(event: Event) -> None:
        if isinstance(event, Emitted):
            assert engine._client.pid is not None
            os.kill(engine._client.pid, signal.SIGKILL)

    engine = Apart(emit, tmp_path / "engine.log")
    engine.handle(load(noise))
    with pytest.raises(EngineDied, match="SIGKILL"):
        engine.handle(ask())
    engine.close()


def test_a_file_that_ends_llama_cpp_is_named_with_its_last_words(engine: Apart, tmp_path: Path) -> None:
    path = killer(tmp_path)
    with pytest.raises(ModelLoadError, match=r"did not survive it: killed by .*SIGABRT.*GGML_ASSERT") as caught:
        engine.handle(load(str(path)))
    assert str(path) in caught.value.message and caught.value.hint


def test_the_last_words_are_those_of_this_process(tmp_path: Path, noise: str) -> None:
    log = tmp_path / "engine.log"
    log.write_text("ops.cpp:1: GGML_ASSERT(of another time) failed\n")
    client = ProcessClient(log)
    client.start()
    client.send(load(noise))
    while not any(isinstance(event, Ready) for event in client.poll()):
        pass
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    while not (died := [event for event in client.poll() if isinstance(event, Died)]):
        pass
    assert "another time" not in died[0].how
    client.close()


def killer(folder: Path) -> Path:
    """A file in order as far as its header tells, which llama.cpp does not survive."""
    return ggufs.hybrid(folder / "killer.gguf", more=({"$.ssm.inner_size": 1}, {}))
