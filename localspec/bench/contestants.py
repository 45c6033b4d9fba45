"""Who takes part in one load: our variants, and peers beside them that answer the same prompts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from localspec.bench.runner import Contestant, Opening, Parting, Room
from localspec.bench.sample import Reply
from localspec.bench.subject import Limits, Subject
from localspec.bench.variants import Setup, Variant
from localspec.chat.message import Message
from localspec.engine.messages import Load
from localspec.spec.rules import is_lossy


@dataclass(frozen=True, slots=True)
class Ours:
    label: str
    variant: Variant
    subject: Subject
    limits: Limits

    def ask(self, messages: Sequence[Message], seed: int) -> Reply:
        return self.subject.ask(self.variant, self.limits, messages, seed)


@dataclass(frozen=True, slots=True)
class Beside:
    """A contestant that brings its own server. Its text should be that of plain decoding at temperature 0, but other
    kernels and another template may tell it apart, so that a difference is counted and not weighed."""

    contestant: Contestant
    temperature: float
    site: str  # the name of the server


@dataclass(frozen=True, slots=True)
class Company:
    """The Room of runner.py."""

    subject: Subject
    ours: dict[str, Variant]
    beside: dict[str, float]
    contestants: Sequence[Contestant]

    def plain(self, label: str) -> str | None:
        variant = self.ours.get(label)
        temperature = self.beside[label] if variant is None else variant.temperature
        if temperature > 0 or (variant is not None and (variant.plain or is_lossy(variant.verifier))):
            return None
        return next((name for name, v in self.ours.items() if v.plain and v.temperature == temperature), None)

    def parting(self, plain: str, label: str) -> Parting:
        if label in self.beside:
            return Parting(0, None, 0.0, 0, "not weighed")
        return self.subject.parting(self.ours[plain], self.ours[label])


class Log(Protocol):
    """Who keeps what is to be reported of each load."""

    def opened(self, setup: Setup, subject: Subject) -> None: ...

    def closing(self, subject: Subject) -> None: ...


@dataclass(slots=True)
class Venue:
    """Loads the model for each setup. `waiting` is loaded with the first one already; the peers stand beside that."""

    load: Load
    limits: Limits
    beside: Sequence[Beside]
    waiting: Subject | None
    log: Log
    tell: Callable[[str], None]

    def openings(self, named: dict[Variant, str]) -> list[Opening]:
        setups = list(dict.fromkeys(variant.setup for variant in named))
        return [
            self._opening(setup, {v: name for v, name in named.items() if v.setup == setup}, company)
            for setup, company in zip(setups, [self.beside, *[()] * (len(setups) - 1)], strict=True)
        ]

    def _opening(self, setup: Setup, named: dict[Variant, str], beside: Sequence[Beside]) -> Opening:
        return Opening(
            str(setup) or "the model", len(named) + len(beside), lambda: self._open(setup, named, beside)
        )

    @contextmanager
    def _open(self, setup: Setup, named: dict[Variant, str], beside: Sequence[Beside]) -> Iterator[Room]:
        subject = self.waiting or Subject(load_with(self.load, setup), self.tell)
        self.waiting = None
        try:
            self.log.opened(setup, subject)
            ours = [Ours(label, variant, subject, self.limits) for variant, label in named.items()]
            yield Company(
                subject,
                {label: variant for variant, label in named.items()},
                {each.contestant.label: each.temperature for each in beside},
                [*ours, *(each.contestant for each in beside)],
            )
        finally:
            self.log.closing(subject)
            subject.close()


def load_with(load: Load, setup: Setup) -> Load:
    return replace(load, target=setup.of(load.target))
