"""The queue before a scripted engine: order, room, clients that go away, an engine that dies."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from localspec.engine.messages import Command, Died, Event, Failed, Finished, Generate, Load, Stop
from localspec.model import ModelSpec
from localspec.serve.desk import Desk, Job
from localspec.serve.refusal import Refused
from localspec.spec.types import Finish
from tests.tui.scripted import ScriptedClient, finished, text

LOAD = Load(ModelSpec("x.gguf"))
ASK = Generate(turn=0)


class Woken(ScriptedClient):
    """Says at once that there is something to hear."""

    def __init__(self, wake: Callable[[], None], *, ready: bool = True) -> None:
        super().__init__(ready=ready)
        self._wake = wake

    def play(self, *events: Event) -> None:
        super().play(*events)
        self._wake()

    def poll(self) -> list[Event]:
        events: list[Event] = []
        while not self.idle:
            events += super().poll()
        return events

    def send(self, command: Command) -> None:
        super().send(command)
        self._wake()


@asynccontextmanager
async def desk(queue: int = 2, *, ready: bool = True) -> AsyncIterator[tuple[Desk, Woken]]:
    clients: list[Woken] = []

    def connect(wake: Callable[[], None]) -> Woken:
        clients.append(Woken(wake, ready=ready))
        return clients[0]

    made = Desk(connect, LOAD, queue)
    working = asyncio.create_task(made.run())
    await settle()
    yield made, clients[0]
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    assert clients[0].closed


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def end_of(job: Job) -> Finished | Refused:
    async for news in job.follow(5.0):
        if isinstance(news, Finished | Refused):
            return news
    raise AssertionError("news end with one of these")


async def test_one_at_a_time_in_order_of_arrival() -> None:
    async with desk() as (made, client):
        first, second = made.ask(ASK), made.ask(ASK)
        assert [command.turn for command in client.asked] == [first.command.turn]
        client.play(text(first.command.turn, "hi"), finished(first.command.turn))
        assert isinstance(await end_of(first), Finished)
        assert client.turn == second.command.turn


async def test_beyond_the_queue_there_is_a_429_that_says_when_to_come_back() -> None:
    async with desk(queue=1) as (made, _):
        made.ask(ASK)
        made.ask(ASK)
        with pytest.raises(Refused) as refused:
            made.ask(ASK)
        assert refused.value.status == 429
        assert int(refused.value.headers["Retry-After"]) >= 1


async def test_before_the_model_is_loaded_there_is_a_503() -> None:
    async with desk(ready=False) as (made, _):
        with pytest.raises(Refused) as refused:
            made.ask(ASK)
        assert refused.value.status == 503
        assert "loaded" in refused.value.message


async def test_client_that_goes_away_stops_the_running_answer() -> None:
    async with desk() as (made, client):
        job = made.ask(ASK)
        made.cancel(job)
        ended = await end_of(job)
        assert isinstance(ended, Finished) and ended.reason is Finish.CANCELLED
        assert any(isinstance(command, Stop) for command in client.commands)
        assert made.running == 0


async def test_client_that_goes_away_while_it_waits_is_never_asked_for() -> None:
    async with desk() as (made, client):
        running, waiting = made.ask(ASK), made.ask(ASK)
        made.cancel(waiting)
        assert isinstance(await end_of(waiting), Refused)
        client.play(finished(running.command.turn))
        await settle()
        assert len(client.asked) == 1
        assert not any(isinstance(command, Stop) for command in client.commands)


async def test_engine_that_dies_takes_what_is_at_hand_and_is_started_again() -> None:
    async with desk() as (made, client):
        running, waiting = made.ask(ASK), made.ask(ASK)
        client.play(Died("killed by signal 9 (SIGKILL)"))
        ended, queued = await end_of(running), await end_of(waiting)
        assert isinstance(ended, Refused) and ended.status == 500 and "SIGKILL" in ended.message
        assert isinstance(queued, Refused) and queued.status == 503
        async with asyncio.timeout(5):
            while made.ready is None:
                await asyncio.sleep(0.01)
        assert client.starts == 2
        assert made.metrics.restarts == 1
        job = made.ask(ASK)
        client.play(finished(job.command.turn))
        assert isinstance(await end_of(job), Finished)


async def test_load_that_fails_at_first_ends_the_service() -> None:
    async with desk(ready=False) as (made, client):
        client.play(Failed("No such file.", "Look for it."))
        await settle()
        assert made.failure is not None
        assert made.failure.message == "No such file."


async def test_refused_prompt_is_the_clients_fault_and_the_next_one_is_asked() -> None:
    async with desk() as (made, client):
        first, second = made.ask(ASK), made.ask(ASK)
        client.play(Failed("The prompt has 9 tokens.", "Shorten it.", 2, first.command.turn, too_long=9))
        ended = await end_of(first)
        assert isinstance(ended, Refused)
        assert (ended.status, ended.code) == (400, "context_length_exceeded")
        assert client.turn == second.command.turn


async def test_shutting_down_lets_the_running_answer_end_and_refuses_the_others() -> None:
    async with desk() as (made, client):
        running, waiting = made.ask(ASK), made.ask(ASK)
        closing = asyncio.create_task(made.close(grace_s=5))
        assert isinstance(await end_of(waiting), Refused)
        with pytest.raises(Refused):
            made.ask(ASK)
        client.play(finished(running.command.turn))
        assert isinstance(await end_of(running), Finished)
        await closing


async def test_answer_that_takes_longer_than_the_grace_is_stopped() -> None:
    async with desk() as (made, client):
        running = made.ask(ASK)
        await made.close(grace_s=0)
        ended = await end_of(running)
        assert isinstance(ended, Refused) and ended.status == 503
        assert any(isinstance(command, Stop) for command in client.commands)
