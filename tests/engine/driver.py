"""An engine whose events are folded into answers, for tests that ask and compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from localspec.chat.answer import Answer
from localspec.chat.message import Message
from localspec.engine.engine import Engine
from localspec.engine.messages import Emitted, Event, Failed, Finished, Generate, Load, Notice
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling

E = TypeVar("E")


class Driver:
    """`on_event` sees each event while the engine works, and may put commands into its inbox."""

    def __init__(self, path: str, **spec: Any) -> None:
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] = lambda event: None
        self.engine = Engine(self._emit)
        self._turn = 0
        self.engine.handle(Load(ModelSpec(path, **spec)))

    def _emit(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)

    def close(self) -> None:
        self.engine.close()

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def notices(self) -> list[str]:
        return [notice.text for notice in self.of(Notice)]

    def ask(
        self, *messages: Message | str, method: str = "lookup", temperature: float = 0.0, **options: Any
    ) -> Answer:
        """One answer to a conversation; a bare string is a user's message."""
        self._turn += 1
        self.events.clear()
        sampling = options.pop("sampling", Sampling())
        seed = options.pop("seed", 1)
        options.setdefault("draft_tokens", 8)  # an automatic length may well decide to draft nothing
        read = tuple(Message("user", m) if isinstance(m, str) else m for m in messages)
        self.engine.handle(
            Generate(
                self._turn,
                messages=read,
                method=method,
                sampling=replace(sampling, temperature=temperature, seed=seed),
                **options,
            )
        )
        answer = Answer(method)
        for event in self.events:
            if isinstance(event, Emitted):
                answer.extend(event.rounds, event.pieces, event.names)
            elif isinstance(event, Finished):
                answer.end(event)
            elif isinstance(event, Failed):
                answer.error = event.message
        return answer

    @property
    def eog(self) -> tuple[int, ...]:
        assert self.engine._loaded is not None
        return tuple(self.engine._loaded.eog)
