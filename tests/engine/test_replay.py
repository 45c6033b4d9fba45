"""A replay says what was recorded when it was recorded, needs no model, and answers nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.chat.message import Message
from localspec.conversation import Conversation, Options
from localspec.engine.messages import (
    Emitted,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Notice,
    Prefill,
    Ready,
    Stop,
    Use,
)
from localspec.engine.replay import NO_PROMPT, ReplayClient
from localspec.errors import LocalspecError
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.chat.test_trace import recorded

ASKED = Generate(5, (Message("user", "Why?"),))


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def asked(speed: float = 1.0, **more: object) -> tuple[ReplayClient, Clock]:
    clock = Clock()
    client = ReplayClient(recorded(**more), speed, clock)  # type: ignore[arg-type]
    client.start()
    client.send(Load(ModelSpec("any")))
    (ready,) = client.poll()
    assert isinstance(ready, Ready)
    client.send(ASKED)
    return client, clock


def test_events_come_when_they_were_recorded() -> None:
    client, clock = asked()
    trace = client.trace
    assert client.poll() == [Prefill(5, 0, 24, 0)]
    clock.now += trace.seconds[0] - 0.001
    assert client.poll() == [Prefill(5, 24, 24, 0)]
    clock.now += 0.002
    (first,) = client.poll()
    assert first == Emitted(5, (trace.answer.rounds[0],), tuple(trace.answer.pieces[:1]))
    clock.now = 100.0 + trace.seconds[-1] + 0.001
    *rest, end = client.poll()
    assert len(rest) == len(trace.answer.rounds) - 1
    assert isinstance(end, Finished)
    assert end.reason is Finish.STOP
    clock.now += 99
    assert client.poll() == []


def test_twice_as_fast() -> None:
    client, clock = asked(speed=2.0)
    clock.now += client.trace.seconds[-1] / 2 + 0.001
    assert isinstance(client.poll()[-1], Finished)


def folded(client: ReplayClient, clock: Clock) -> Conversation:
    chat = Conversation(client, Load(ModelSpec("any")), Options("demo", "lookup", None, Sampling()))
    chat.submit("Why?")
    chat.start()
    for _ in range(3):
        for event in client.poll():
            chat.fold(event)
        clock.now += 99
    return chat


def test_a_conversation_ends_up_with_the_same_answer() -> None:
    client, clock = asked()
    chat = folded(client, clock)
    assert chat.shown is not None
    assert chat.shown == client.trace.answer
    assert not chat.notes


def test_an_answer_that_broke_off_breaks_off_again() -> None:
    client, clock = asked(reason=None)
    chat = folded(client, clock)
    assert chat.shown is not None and chat.shown.error
    assert chat.shown.pieces == client.trace.answer.pieces


def test_stopped_in_the_middle() -> None:
    client, clock = asked()
    clock.now += client.trace.seconds[3] + 0.0001
    client.poll()
    client.send(Stop())
    (end,) = client.poll()
    assert isinstance(end, Finished)
    assert end.reason is Finish.CANCELLED
    assert end.decode_s == pytest.approx(client.trace.seconds[3] + 0.0001 - 0.1)
    clock.now += 99
    assert client.poll() == []


@pytest.mark.parametrize(
    "other", [replace(ASKED, messages=(Message("user", "What?"),)), replace(ASKED, resume=(1,))]
)
def test_other_questions_have_no_answer(other: Generate) -> None:
    client, _ = asked()
    client.send(Stop())
    client.poll()
    client.send(other)
    (failed,) = client.poll()
    assert isinstance(failed, Failed)
    assert "no model" in failed.message
    assert failed.turn == 5


def test_the_method_can_not_be_switched_and_it_says_so() -> None:
    client, _ = asked()
    client.send(Use("off"))
    (notice,) = [event for event in client.poll() if isinstance(event, Notice)]
    assert "replay" in notice.text


def test_what_was_asked_may_be_untold() -> None:
    clock = Clock()
    client = ReplayClient(recorded(prompt=None), clock=clock)
    client.send(replace(ASKED, messages=(Message("user", NO_PROMPT),)))
    events: list[Event] = client.poll()
    assert isinstance(events[0], Prefill)


def test_ready_tells_what_was_recorded() -> None:
    client = ReplayClient(recorded(thinks=True))
    client.send(Load(ModelSpec("any")))
    (ready,) = client.poll()
    assert isinstance(ready, Ready)
    assert ready.target.name == "SmolLM2 135M"
    assert ready.methods == ("lookup", "off")
    assert ready.thinks


@pytest.mark.parametrize("environment", [None, {}, {"models": []}, {"models": [5]}, {"models": [{"name": 5}]}])
def test_a_trace_that_names_no_model_is_refused(environment: object) -> None:
    trace = recorded()
    with pytest.raises(LocalspecError, match="which model"):
        ReplayClient(replace(trace, header=replace(trace.header, environment=environment)))


def test_settings_that_are_none_are_refused() -> None:
    trace = recorded()
    with pytest.raises(LocalspecError):
        ReplayClient(replace(trace, header=replace(trace.header, sampling={"temperature": "hot"})))
