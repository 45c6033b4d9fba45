"""An engine that has no model: it plays a trace at the speed it was recorded at. Knows no file and no llama.cpp."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import Field, fields
from time import monotonic
from typing import Any, TypeVar

from localspec.chat.trace import Trace
from localspec.engine.messages import (
    Command,
    Emitted,
    Environment,
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
from localspec.errors import LocalspecError
from localspec.model import ModelInfo
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish

T = TypeVar("T")
NO_PROMPT = "(The trace does not tell what was asked.)"
_FIXED = "This is a replay: method and draft length stay as they were recorded."


class ReplayClient:
    """An EngineClient. Asking what the trace was asked plays it from its beginning; any other question fails."""

    def __init__(self, trace: Trace, speed: float = 1.0, clock: Callable[[], float] = monotonic) -> None:
        self.trace = trace
        self.prompt = trace.header.prompt or NO_PROMPT
        self.sampling = sampling(trace)
        self._environment = environment(trace)
        self._speed, self._clock = speed, clock
        self._told: deque[Event] = deque()
        self._due: deque[tuple[float, Event]] = deque()  # (seconds since the asking, what happens then)
        self._began = 0.0
        self._turn: int | None = None

    def start(self) -> None:
        self._told.clear()
        self._rest()

    def send(self, command: Command) -> None:
        match command:
            case Load():
                self._told.append(self._ready())
            case Generate():
                self._ask(command)
            case Stop() if self._turn is not None:
                self._told.append(self._finished(self._turn, Finish.CANCELLED))
                self._rest()
            case Use() if self._turn is not None:
                self._told.append(Notice(_FIXED, self._turn))

    def poll(self) -> list[Event]:
        events, now = list(self._told), (self._clock() - self._began) * self._speed
        self._told.clear()
        while self._due and self._due[0][0] <= now:
            events.append(self._due.popleft()[1])
        if not self._due:
            self._rest()
        return events

    def close(self) -> None:
        self._rest()

    def _rest(self) -> None:
        self._due.clear()
        self._turn = None

    def _ask(self, command: Generate) -> None:
        asked = command.messages[-1].text if command.messages else command.prompt
        if asked != self.prompt or command.resume:
            hint = "Ctrl+R on its question plays it again."
            self._told.append(Failed("This is a replay of one answer, with no model.", hint, turn=command.turn))
            return
        self._turn, self._began = command.turn, self._clock()
        self._due = deque(self._events(command.turn))

    def _events(self, turn: int) -> list[tuple[float, Event]]:
        answer, seconds = self.trace.answer, self.trace.seconds
        total, reused = answer.prompt_tokens, answer.reused_tokens
        events: list[tuple[float, Event]] = [(0.0, Prefill(turn, reused, total, reused))]
        events.append((answer.prefill_s or 0.0, Prefill(turn, total, total, reused)))
        at = 0
        for made, end in zip(answer.rounds, seconds, strict=True):
            pieces = tuple(answer.pieces[at : (at := at + len(made.emitted))])
            names = tuple(answer.names.items()) if made is answer.rounds[0] else ()
            events.append((end, Emitted(turn, (made,), pieces, names=names)))
        if answer.finish is None:
            ending: Event = Failed(answer.error or "The answer broke off here.", "", turn=turn)
        else:
            ending = self._finished(turn, answer.finish)
        return [*events, (events[-1][0], ending)]

    def _finished(self, turn: int, reason: Finish) -> Finished:
        answer, whole = self.trace.answer, reason is self.trace.answer.finish
        return Finished(
            turn=turn,
            reason=reason,
            seed=answer.seed or 0,
            prompt_tokens=answer.prompt_tokens,
            reused_tokens=answer.reused_tokens,
            prefill_s=answer.prefill_s or 0.0,
            ttft_s=answer.ttft_s,
            decode_s=(answer.decode_s or 0.0) if whole else self._played(),
            total_s=(answer.total_s or 0.0) if whole else (answer.prefill_s or 0.0) + self._played(),
            environment=self._environment,
            tail=answer.tail if whole else "",
        )

    def _played(self) -> float:
        """Seconds of decoding until now, as they were recorded."""
        return max(0.0, (self._clock() - self._began) * self._speed - (self.trace.answer.prefill_s or 0.0))

    def _ready(self) -> Ready:
        header, rounds = self.trace.header, self.trace.answer.rounds
        methods = dict.fromkeys((header.method, *(made.method for made in rounds)))
        target, *others = self._environment.models
        draft = others[0] if others else None
        return Ready(target, draft, tuple(methods), (), self._environment, header.thinks, "the trace has none")


def sampling(trace: Trace) -> Sampling:
    """The recorded settings, for the screen; biases need a model, and are left out."""
    known = {field.name for field in fields(Sampling)} - {"logit_bias", "banned"}
    try:
        return Sampling(**{name: value for name, value in trace.header.sampling.items() if name in known})
    except TypeError as error:
        raise LocalspecError("The first line of the trace holds no sampling settings.", f"{error}.") from error


def environment(trace: Trace) -> Environment:
    """The recorded one. Raises LocalspecError where the first line of the trace doesn't hold one."""
    plain = trace.header.environment
    try:
        assert plain is not None and plain["models"]
        models = tuple(_built(ModelInfo, model | {"numerics": None}) for model in plain["models"])
        return _built(Environment, plain | {"models": models, "devices": tuple(map(str, plain["devices"]))})
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        message = "The first line of the trace does not say which model and machine it was made with."
        raise LocalspecError(message, f"Its environment is not whole ({error or 'it has none'}).") from error


def _built(kind: type[T], plain: dict[str, Any]) -> T:
    """A dataclass from a JSON object; fields that this version doesn't know are left out."""
    known: tuple[Field[Any], ...] = fields(kind)  # type: ignore[arg-type]
    for field in known:
        wanted = {"str": str, "int": int, "bool": bool}.get(str(field.type))
        if wanted and not isinstance(plain[field.name], wanted):
            raise ValueError(f"{field.name} is not {field.type}")
    return kind(**{field.name: plain[field.name] for field in known if field.name in plain})
