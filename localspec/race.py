"""A race: one prompt and one seed, decoded plainly and then with a method, and what came of it.

The two run one after the other on the same model; each keeps its rounds, so that both can be shown side by side at
their true speed afterwards. Leaves the conversation alone. Knows no screen and no clock.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate

from localspec.chat.answer import Answer
from localspec.chat.inspection import quoted
from localspec.chat.numbers import speed
from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.engine.messages import Died, Emitted, Event, Failed, Finished, Generate, Notice, Prefill, Ready, Stop
from localspec.errors import UsageError
from localspec.spec.types import Finish

TOKENS = 256  # of each answer at most: enough to see a difference, and soon over
PLAIN = "off"
_LANES = (-1, -2)  # their turns; those of a conversation are positive
_TIE = -3
_ALTERNATIVES = 100  # of the place where the answers part


@dataclass(slots=True)
class Lane:
    """One of the two, and how far the engine got in reading the prompt for it."""

    method: str
    answer: Answer
    reading: Prefill | None = None

    @property
    def seconds(self) -> float:
        """Of decoding alone: the prompt is read once for both."""
        return self.answer.decode_s or self.answer.stats.total_s

    @property
    def speed(self) -> float:
        return len(self.answer.token_ids) / self.seconds if self.seconds > 0 else 0.0

    def arrivals(self) -> list[float]:
        """When each token was there, in seconds since the prompt was read."""
        ends = accumulate(made.total_s for made in self.answer.rounds)
        return [end for end, made in zip(ends, self.answer.rounds, strict=True) for _ in made.emitted]


@dataclass(slots=True)
class Race:
    """`fold` takes in what the engine says, and starts the second when the first is done. `trouble` says why there
    will be no result, `gap` how far apart the two tokens are where greedy answers part, in logits."""

    client: EngineClient
    asked: Generate
    lanes: tuple[Lane, Lane]
    lane: int = 0  # the one that runs; 2 while the model is asked about the place where they part
    over: bool = False
    trouble: str = ""
    gap: float | None = None
    stopped: bool = False
    notices: list[str] = field(default_factory=list)
    answered: bool = False  # the conversation has an answer to this question already

    def start(self) -> None:
        self._run(0)

    def stop(self) -> None:
        """End it now: what runs is stopped, what did not start never will."""
        if not self.over and not self.stopped:
            self.stopped = True
            self.client.send(Stop())

    def fold(self, event: Event) -> bool:
        """Whether this event was the race's own."""
        match event:
            case Died():
                self._end("The engine stopped.")
                return False
            case Prefill() | Emitted() | Finished() if event.turn in _LANES:
                self._grow(self.lanes[_LANES.index(event.turn)], event)
            case Emitted() | Prefill() | Finished() if event.turn == _TIE:
                self._tie(event)
            case Notice() if event.turn in (*_LANES, _TIE):
                self.notices.append(event.text)
            case Failed() if event.turn in (*_LANES, _TIE):
                self._end("" if event.turn == _TIE else f"{event.message} {event.hint}".strip())
            case _:
                return False
        return True

    @property
    def same(self) -> int:
        """How many tokens both begin with."""
        ids = [lane.answer.token_ids for lane in self.lanes]
        return next((n for n, (a, b) in enumerate(zip(*ids, strict=False)) if a != b), min(map(len, ids)))

    @property
    def equal(self) -> bool:
        return len({lane.answer.token_ids for lane in self.lanes}) == 1

    def _run(self, lane: int) -> None:
        self.lane = lane
        method = self.lanes[lane].method
        draft_tokens = self.asked.draft_tokens if lane else None
        self.client.send(replace(self.asked, turn=_LANES[lane], method=method, draft_tokens=draft_tokens))

    def _grow(self, lane: Lane, event: Prefill | Emitted | Finished) -> None:
        match event:
            case Prefill():
                lane.reading = event
            case Emitted():
                lane.answer.extend(event.rounds, event.pieces)
            case Finished():
                lane.answer.end(event)
                self._finished(lane, event.reason)

    def _finished(self, lane: Lane, reason: Finish) -> None:
        if self.stopped or reason is Finish.CANCELLED:
            self._end("The race was stopped.")
        elif not lane.answer.token_ids:
            self._end("The model said nothing to this prompt.")
        elif lane is self.lanes[0]:
            self._run(1)
        elif self.asked.sampling.greedy and self.same < min(len(each.answer.token_ids) for each in self.lanes):
            self._ask_about_the_tie()
        else:
            self._end()

    def _ask_about_the_tie(self) -> None:
        self.lane = len(self.lanes)
        common = self.lanes[0].answer.token_ids[: self.same]
        question = replace(self.asked, turn=_TIE, method=PLAIN, draft_tokens=None)
        self.client.send(replace(question, resume=common, max_tokens=1, logprobs=_ALTERNATIVES))

    def _tie(self, event: Emitted | Prefill | Finished) -> None:
        if isinstance(event, Emitted) and event.rounds and event.rounds[0].logprobs:
            known = event.rounds[0].logprobs[0]
            logprobs = {known.token: known.logprob} | dict(known.top)
            first, second = (logprobs.get(lane.answer.token_ids[self.same]) for lane in self.lanes)
            if first is not None and second is not None:
                self.gap = abs(first - second)
        if isinstance(event, Finished):
            self._end()

    def _end(self, trouble: str = "") -> None:
        self.over, self.trouble = True, self.trouble or trouble


def race(chat: Conversation, client: EngineClient) -> Race:
    """The last message again, plainly and with the method in use; with automatic choice where that is plain too.
    Raises UsageError when there can be none now."""
    questions = [node for node in chat.session.path if node.message]
    if not isinstance(chat.engine, Ready):
        raise UsageError("There is no model to race with.", "F8 loads it again.")
    if chat.running or chat.queue:
        raise UsageError("A race needs the engine to itself.", "Wait for the answer, or stop it with Esc.")
    if not questions:
        raise UsageError("A race takes your last message as its prompt, and there is none.", "Ask something first.")
    others = [method for method in ("auto", *chat.methods) if method in chat.methods and method != PLAIN]
    if not others:
        raise UsageError("This model decodes plainly: there is nothing to race against.")
    method = others[0] if chat.method == PLAIN else chat.method
    answer = chat.shown
    sampling = chat.options.sampling
    if sampling.seed is None:
        sampling = replace(sampling, seed=answer.seed if answer and answer.seed is not None else 0)
    asked = Generate(
        turn=_LANES[0],
        messages=chat.session.messages(until=questions[-1]),
        sampling=sampling,
        draft_tokens=chat.draft_tokens,
        verifier=chat.options.verifier,
        lookup=chat.options.lookup,
        max_tokens=min(chat.options.max_tokens or TOKENS, TOKENS),
        stop=chat.options.stop,
        remember=False,
    )
    lanes = Lane(PLAIN, Answer(PLAIN)), Lane(method, Answer(method))
    return Race(client, asked, lanes, answered=bool(questions[-1].children))


def terms(race: Race) -> str:
    """Under which conditions both run."""
    sampling, limit = race.asked.sampling, race.asked.max_tokens
    return f"seed {sampling.seed} · T {sampling.temperature:g} · at most {limit} tokens each"


def names(race: Race) -> tuple[str, str]:
    """Of the two lanes, for people: `plain`, `lookup k=8`."""
    length = f" k={race.asked.draft_tokens}" if race.asked.draft_tokens else ""
    return "plain", f"{race.lanes[1].method}{length}"


def step(race: Race) -> str:
    """What runs now."""
    return (
        "1 of 2: plain is written",
        f"2 of 2: {race.lanes[1].method} is written",
        "where do they part?",
    )[race.lane]


def told(race: Race) -> list[str]:
    """The whole result, line by line: each of the two, the comparison, and what to bear in mind about it."""
    if race.trouble:
        return [result(race), *remarks(race)]
    lanes = (
        f"{name}: {len(lane.answer.token_ids):,} tokens in {lane.seconds:.1f} s, {speed(lane.speed or None)} tok/s"
        for name, lane in zip(names(race), race.lanes, strict=True)
    )
    return [*lanes, result(race), comparison(race), *remarks(race)]


def written(arrivals: list[float], seconds: float) -> int:
    """How many tokens were there after so many seconds."""
    return bisect_right(arrivals, seconds)


def result(race: Race) -> str:
    """`lookup 2.1 s against plain 3.4 s: 1.62x`; by speed where the answers are not equally long."""
    plain, other = race.lanes
    if race.trouble or not plain.speed or not other.speed:
        return race.trouble or "Nothing was measured."
    times = f"{other.speed / plain.speed:.2f}x"
    if len(plain.answer.token_ids) == len(other.answer.token_ids):
        return f"{other.method} {other.seconds:.1f} s against plain {plain.seconds:.1f} s: {times}"
    return f"{other.method} {speed(other.speed)} tok/s against plain {speed(plain.speed)} tok/s: {times}"


def comparison(race: Race) -> str:
    """Whether both wrote the same, where they part, and why they may."""
    if race.trouble:
        return ""
    if race.equal:
        return f"same {race.same:,} tokens"
    place = _parting(race)
    drawn = any(made.drafted and any(q < 1 for q in made.q) for made in race.lanes[1].answer.rounds)
    if drawn and not race.asked.sampling.greedy:
        return (
            f"{place}. At temperature {race.asked.sampling.temperature:g} both are drawn from the model's own "
            "distribution, but drafts that are drawn use random numbers of their own: the texts may differ."
        )
    if race.gap is None:
        return place
    return f"{place}: {race.gap:.2g} apart in logits. {_WHY}"


def remarks(race: Race) -> list[str]:
    """What to bear in mind about the result."""
    said = list(dict.fromkeys(race.notices))
    if race.answered and any(made.source == "suffix" and made.accepted for made in race.lanes[1].answer.rounds):
        said.append("suffix remembers earlier answers, and may know the one that this message already has.")
    return said


_WHY = "A pass over several tokens rounds differently from one over a single token; --numerics strict avoids it."


def _parting(race: Race) -> str:
    words = [lane.answer.pieces[race.same :][:1] for lane in race.lanes]
    plain, other = (quoted(piece[0].text) if piece else "the end" for piece in words)
    return f"same {race.same:,} tokens, then {plain} in plain and {other} in {race.lanes[1].method}"
