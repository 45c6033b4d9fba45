"""Contestants that need no model: each answer costs what a script says, on a clock that the script moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from localspec.bench.runner import Contestant, Opening, Parting, Plan, Room
from localspec.bench.sample import Reply
from localspec.bench.suite import Prompt
from localspec.chat.message import Message


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Slow:
    """Writes `tokens` tokens at `step` seconds each; its `text` may depend on what it is asked."""

    label: str
    clock: Clock
    step: float = 0.01
    tokens: int = 50
    noise: float = 0.0
    text: Callable[[str], str] = str.upper
    asked: list[tuple[tuple[Message, ...], int]] = field(default_factory=list)
    trouble: Callable[[int], None] = lambda count: None

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(list(self.label.encode()))

    def ask(self, messages: Sequence[Message], seed: int) -> Reply:
        self.asked.append((tuple(messages), seed))
        self.trouble(len(self.asked))
        spent = self.tokens * self.step * float(np.exp(self.noise * self._rng.normal()))
        self.clock.now += 0.1 + spent
        return said(self.text(messages[-1].text), self.tokens, spent)


def said(text: str, tokens: int = 50, decode_s: float = 0.5, **more: object) -> Reply:
    values = {
        "text": text,
        "finish": "length",
        "prompt_tokens": 10,
        "reused_tokens": 0,
        "tokens": tokens,
        "prefill_s": 0.1,
        "ttft_s": 0.11,
        "decode_s": decode_s,
        "total_s": 0.1 + decode_s,
        "latency": ((tokens, decode_s),),
        **more,
    }
    return Reply(**values)  # type: ignore[arg-type]


@dataclass
class Scene:
    """The Room of these contestants: the first one's text is the plain one."""

    contestants: Sequence[Contestant]
    closed: bool = False

    def plain(self, label: str) -> str | None:
        first = self.contestants[0].label
        return None if label == first else first

    def parting(self, plain: str, label: str) -> Parting:
        return Parting(3, 0.5, 0.4, 5, "near tie")


def opening(*contestants: Contestant, label: str = "the model") -> Opening:
    @contextmanager
    def opened() -> Iterator[Room]:
        yield Scene(contestants)

    return Opening(label, len(contestants), opened)


@dataclass
class Eye:
    """A Watch that notes what it is told, and stops the measuring when `until` says so."""

    until: Callable[[int], bool] = lambda done: False
    told: list[str] = field(default_factory=list)
    seen: list[tuple[int, int]] = field(default_factory=list)

    def progress(self, done: int, total: int) -> None:
        self.seen.append((done, total))

    def tell(self, text: str) -> None:
        self.told.append(text)

    @property
    def stopped(self) -> bool:
        return self.until(self.seen[-1][0] if self.seen else 0)


def prompts(count: int, *turns: str) -> tuple[Prompt, ...]:
    said = turns or ("hello",)
    return tuple(
        Prompt(f"p{i}", "even" if i % 2 == 0 else "odd", tuple(f"{t} {i}" for t in said)) for i in range(count)
    )


def plan(count: int = 6, **fields: object) -> Plan:
    return Plan(prompts(count), **fields)  # type: ignore[arg-type]
