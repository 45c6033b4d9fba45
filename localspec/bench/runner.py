"""Who answers what, and in which order: variants take turns on each prompt (A B A B ...), so that a machine that gets
slower gets slower for all of them. Knows contestants only; no model, no server, no clock, no screen.

Where several loads are compared they take turns as well, once per repeat. Warm-up answers are dropped. The second
turn of a prompt follows on the first contestant's first answer for everybody, so that all read the same prompt.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from localspec.bench.sample import Reply, Sample, Task
from localspec.bench.suite import Prompt
from localspec.chat.message import Message
from localspec.errors import LocalspecError, PromptTooLong
from localspec.spec.types import Finish

_PATIENCE = 3  # errors in a row, after which a contestant is left out


class Gone(LocalspecError):
    """A contestant that will not answer any more."""


@dataclass(frozen=True, slots=True)
class Parting:
    """Where a greedy text left the plain one, and what the target says to that; None where it can't be asked."""

    position: int
    gap: float | None
    noise: float
    rows: int
    verdict: str  # near tie | BUG | not weighed


class Contestant(Protocol):
    @property
    def label(self) -> str: ...

    def ask(self, messages: Sequence[Message], seed: int) -> Reply:
        """Raises PromptTooLong, Gone, or another LocalspecError for this answer alone."""


class Room(Protocol):
    """A loaded model, and who answers with it (or beside it)."""

    @property
    def contestants(self) -> Sequence[Contestant]: ...

    def plain(self, label: str) -> str | None:
        """The contestant whose text this one's must equal; None where there is no such promise."""

    def parting(self, plain: str, label: str) -> Parting:
        """How the last texts of these two differ."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A room that is still to be loaded."""

    label: str
    size: int  # how many contestants it will have
    open: Callable[[], AbstractContextManager[Room]]


@dataclass(frozen=True, slots=True)
class Plan:
    prompts: tuple[Prompt, ...]
    repeats: int = 1
    warmup: int = 1  # answers of each contestant that are dropped, after each load
    seed: int = 1


class Watch(Protocol):
    def progress(self, done: int, total: int) -> None: ...

    def tell(self, text: str) -> None: ...

    @property
    def stopped(self) -> bool:
        """Whether the user wants what is done, and no more."""


@dataclass(slots=True)
class Identity:
    compared: int = 0
    equal: int = 0
    partings: list[tuple[Task, Parting]] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    samples: list[Sample] = field(default_factory=list)
    identity: dict[str, Identity] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)  # prompt -> why
    problems: dict[str, str] = field(default_factory=dict)  # contestant -> what it answered instead of a text
    complete: bool = False


def schedule(rooms: int, repeats: int) -> list[tuple[int, range]]:
    """Which room is open for which repeats: one stays open for all of them, several take turns."""
    if rooms == 1:
        return [(0, range(1, repeats + 1))]
    return [(room, range(repeat, repeat + 1)) for repeat in range(1, repeats + 1) for room in range(rooms)]


def measure(openings: Sequence[Opening], plan: Plan, watch: Watch) -> Outcome:
    """All of it, or what was done when the user stopped it."""
    outcome = Outcome()
    visits = schedule(len(openings), plan.repeats)
    turns = sum(len(prompt.turns) for prompt in plan.prompts)
    total = sum(openings[room].size * (plan.warmup + turns * len(repeats)) for room, repeats in visits)
    run = _Run(plan, watch, outcome, total)
    try:
        for number, repeats in visits:
            run.visit(openings[number], repeats, turns)
        outcome.complete = True
    except (KeyboardInterrupt, _Enough):
        pass
    return outcome


class _Enough(Exception):
    """The user stopped it."""


@dataclass(slots=True)
class _Run:
    plan: Plan
    watch: Watch
    outcome: Outcome
    total: int
    done: int = 0
    _history: dict[Task, Message] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    _out: set[str] = field(default_factory=set)

    def visit(self, opening: Opening, repeats: range, turns: int) -> None:
        """A room that can't be opened is left out; the others go on."""
        if opening.label in self._out:
            self.done += opening.size * (self.plan.warmup + turns * len(repeats))
            return
        before = self.done
        try:
            with opening.open() as room:
                self.warm_up(room)
                for repeat in repeats:
                    self.pass_through(room, repeat)
        except LocalspecError as error:
            self.done = before + opening.size * (self.plan.warmup + turns * len(repeats))
            self._out.add(opening.label)
            self.outcome.problems[opening.label] = error.message
            self.watch.tell(f"{opening.label} is left out. {error.message}")

    def warm_up(self, room: Room) -> None:
        end = self.done + self.plan.warmup * len(room.contestants)
        for number in range(self.plan.warmup):
            prompt = self.plan.prompts[number % len(self.plan.prompts)]
            for contestant in room.contestants:
                with suppress(PromptTooLong):  # it is said when its turn comes
                    self._ask(contestant, (Message("user", prompt.turns[0]),), self.plan.seed)
        self.done = end

    def pass_through(self, room: Room, repeat: int) -> None:
        for number, prompt in enumerate(self.plan.prompts):
            end = self.done + len(prompt.turns) * len(room.contestants)
            for task, messages in self._turns(prompt):
                replies = self._round(room, task, messages, self.plan.seed + number + 10_007 * (repeat - 1))
                self.outcome.samples += [Sample(label, task, repeat, reply) for label, reply in replies.items()]
                self._compare(room, task, replies)
            self.done = end  # a prompt that ended early is done as well

    def _turns(self, prompt: Prompt) -> Iterator[tuple[Task, tuple[Message, ...]]]:
        """Ends early where the turn before got no answer: there is nothing to go on from."""
        messages: tuple[Message, ...] = ()
        for turn, text in enumerate(prompt.turns, 1):
            task = Task(prompt.id, prompt.category, turn)
            messages = (*messages, Message("user", text))
            yield task, messages
            if task not in self._history:
                return
            messages = (*messages, self._history[task])

    def _round(self, room: Room, task: Task, messages: tuple[Message, ...], seed: int) -> dict[str, Reply]:
        """Everybody's answer to one prompt."""
        replies: dict[str, Reply] = {}
        for contestant in room.contestants:
            try:
                reply = self._ask(contestant, messages, seed)
            except PromptTooLong as error:
                self._skip(task, error)
                return {}
            if reply is not None:
                replies[contestant.label] = reply
                self._history.setdefault(task, Message("assistant", reply.text))
        return replies

    def _ask(self, contestant: Contestant, messages: tuple[Message, ...], seed: int) -> Reply | None:
        if self.watch.stopped:
            raise _Enough
        label, reply = contestant.label, None
        try:
            if label not in self._out:
                reply = contestant.ask(messages, seed)
                self._failures[label] = 0
        except PromptTooLong:
            raise
        except LocalspecError as error:
            self._failed(label, error)
        if reply is not None and reply.finish == Finish.CANCELLED:
            raise _Enough
        self.done += 1
        self.watch.progress(self.done, self.total)
        return reply if reply is not None and reply.tokens else None

    def _skip(self, task: Task, error: PromptTooLong) -> None:
        if str(task) not in self.outcome.skipped:
            self.outcome.skipped[str(task)] = error.message
            self.watch.tell(f"{task} is skipped. {error.message}")

    def _failed(self, label: str, error: LocalspecError) -> None:
        self._failures[label] += 1
        if isinstance(error, Gone) or self._failures[label] == _PATIENCE:
            self._out.add(label)
            self.watch.tell(f"{label} is left out from here on. {error.message}")
        elif label not in self.outcome.problems:
            self.watch.tell(f"{label}: {error.message}")
        self.outcome.problems[label] = error.message

    def _compare(self, room: Room, task: Task, replies: dict[str, Reply]) -> None:
        for label, reply in replies.items():
            plain = room.plain(label)
            if plain in replies:
                found = self.outcome.identity.setdefault(label, Identity())
                found.compared += 1
                if reply.text == replies[plain].text:
                    found.equal += 1
                else:
                    found.partings.append((task, room.parting(plain, label)))
