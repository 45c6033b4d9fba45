"""localspec itself as contestants: one loaded engine in this process, asked with one variant after the other.

Every answer begins with empty caches, of the target and of the draft, and each variant has a controller of its own,
so that none learns from another. The clocks are the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace

from localspec.bench.runner import Parting
from localspec.bench.sample import Reply, of_answer
from localspec.bench.variants import Variant
from localspec.chat.answer import Answer
from localspec.chat.message import Message
from localspec.engine.engine import Engine
from localspec.engine.identity import compare
from localspec.engine.loaded import Loaded
from localspec.engine.messages import (
    Emitted,
    Environment,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Notice,
    Ready,
    Stop,
)
from localspec.errors import LocalspecError, PromptTooLong
from localspec.llama import devices
from localspec.spec.controller import Controller
from localspec.spec.settings import Sampling


@dataclass(frozen=True, slots=True)
class Limits:
    """What is held constant: sampling (but for the temperature), length, stop strings."""

    sampling: Sampling
    max_tokens: int
    stop: tuple[str, ...] = ()
    system: str | None = None
    lookup: tuple[int, int] = (2, 32)
    full_length: bool = False  # ban the end tokens: every answer has max_tokens tokens

    def messages(self, asked: Sequence[Message]) -> tuple[Message, ...]:
        return (Message("system", self.system), *asked) if self.system else tuple(asked)


class Subject:
    """A loaded model. Close it. Raises LocalspecError when it can't be loaded."""

    def __init__(self, load: Load, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._answer: Answer | None = None
        self._ready: Ready | None = None
        self._environment: Environment | None = None
        self._controllers: dict[Variant, Controller] = {}
        self._last: dict[Variant, tuple[Generate, Answer]] = {}
        before = _device_bytes()
        self._engine = Engine(self._take)
        self._engine.handle(load)
        self._fresh = deepcopy(self.loaded.drafting.controller)
        self._before, self.device_bytes = before, _device_bytes() - before

    @property
    def loaded(self) -> Loaded:
        assert self._engine.loaded is not None, "a load that fails raises"
        return self._engine.loaded

    @property
    def ready(self) -> Ready:
        assert self._ready is not None, "a load that fails raises"
        return self._ready

    @property
    def environment(self) -> Environment:
        """After the last answer: its peak of memory is that of the whole process so far."""
        return self._environment or self.ready.environment

    def stop(self) -> None:
        """End the running answer. May be called from a signal handler."""
        self._engine.inbox.put(Stop())

    def close(self) -> None:
        self._engine.close()

    def ask(self, variant: Variant, limits: Limits, messages: Sequence[Message], seed: int) -> Reply:
        command = self._command(variant, limits, messages, seed)
        needed = len(self.loaded.prompt(command).ids) + limits.max_tokens
        if needed > self.loaded.target.n_ctx:
            raise PromptTooLong(needed, self.loaded.target.n_ctx)
        self._forget(variant)
        self._answer = answer = Answer(variant.method)
        self._engine.handle(command)
        self._last[variant] = command, answer
        self.device_bytes = max(self.device_bytes, _device_bytes() - self._before)
        return of_answer(answer)

    def said(self, variant: Variant) -> tuple[list[int], tuple[int, ...]]:
        """The tokens of the last prompt that this variant answered, and of its answer."""
        command, answer = self._last[variant]
        return self.loaded.prompt(command).ids, answer.token_ids

    def parting(self, plain: Variant, other: Variant) -> Parting:
        """Ask the target about the first place where the last two answers differ. Greedy and unpenalised ones."""
        (command, wanted), (_, answer) = self._last[plain], self._last[other]
        ids, _ = self.said(plain)
        self._forget(plain)
        found = compare(self.loaded, 0, ids, wanted.token_ids, answer.rounds)
        if found is None:
            return Parting(len(wanted.token_ids), None, 0.0, 0, "not weighed")
        gap = found.gap if found.rows else None
        verdict = "not weighed" if command.sampling.penalised else found.verdict
        return Parting(found.position, gap, found.noise, found.rows, verdict)

    def _command(self, variant: Variant, limits: Limits, messages: Sequence[Message], seed: int) -> Generate:
        banned = tuple(sorted(self.loaded.eog)) if limits.full_length else ()
        sampling = replace(
            limits.sampling,
            temperature=variant.temperature,
            seed=seed,
            banned=(*limits.sampling.banned, *banned),
        )
        return Generate(
            turn=0,
            messages=limits.messages(messages),
            sampling=sampling,
            method=variant.method,
            draft_tokens=variant.draft_tokens,
            verifier=variant.verifier,
            lookup=limits.lookup,
            max_tokens=limits.max_tokens,
            stop=limits.stop,
        )

    def _forget(self, variant: Variant) -> None:
        """Empty caches, and what this variant has learned so far."""
        loaded = self.loaded
        loaded.target.rewind(0)
        if loaded.draft is not None:
            loaded.draft.rewind(0)
        if variant not in self._controllers:
            self._controllers[variant] = deepcopy(self._fresh)
        loaded.drafting.controller = self._controllers[variant]

    def _take(self, event: Event) -> None:
        match event:
            case Ready():
                self._ready = event
            case Emitted() if self._answer:
                self._answer.extend(event.rounds, event.pieces)
            case Finished() if self._answer:
                self._answer.end(event)
                self._environment = event.environment
            case Notice():
                self._tell(event.text)
            case Failed():
                raise LocalspecError(event.message, event.hint)


def _device_bytes() -> int:
    """Memory in use on the GPUs, by everybody; 0 without one."""
    return sum(d.total - d.free for d in devices.list_devices() if d.kind in ("gpu", "igpu"))
