"""A machine and a text that a controller can be tried on: costs, noise, stalls, acceptance, and an oracle.

The text is zeros. A draft of a source is a run of zeros, as long as its chances have it, then a one. What came out is
judged by expected tokens and true costs, so that luck in a run doesn't show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate
from operator import mul

import numpy as np
from numpy.random import Generator, default_rng

from localspec.spec.controller import LADDER, Choice, Controller, Option
from localspec.spec.types import Draft, Round

LONGEST = LADDER[-1]
Rates = tuple[float, ...]  # the chance at each position, given that the ones before were accepted
Text = Callable[[int], Rates]  # the rates in each round
Offers = Callable[[int, Generator], tuple[int, int]]  # (available, evidence) in each round

# The cost of a pass by drafted tokens, in plain steps: a processor, and a card with a cliff at five rows.
CPU = (1.0, 1.65, 2.2, 2.7, 3.3, 3.7, 4.1, 4.5, 5.0, *(5.0 + 0.42 * i for i in range(1, 60)))
GPU = (1.0, 1.02, 1.04, 1.06, 1.3, *(1.3 + 0.05 * i for i in range(1, 60)))
STEP_S = 0.01


def flat(rate: float) -> Text:
    rates = (rate,) * LONGEST
    return lambda round: rates


def steep(rate: float, decline: float) -> Text:
    rates = tuple(rate * decline**i for i in range(LONGEST))
    return lambda round: rates


def alternating(one: Text, other: Text, period: int) -> Text:
    return lambda round: (other if round // period % 2 else one)(round)


def drifting(start: float, end: float, rounds: int) -> Text:
    return lambda round: (start + (end - start) * min(1.0, round / rounds),) * LONGEST


def always(round: int, rng: Generator) -> tuple[int, int]:
    return LONGEST, 0


def seldom(chance: float, evidences: dict[int, float]) -> Offers:
    """A lookup: silent in most rounds; the evidence says how good its proposal is."""
    kinds, weights = list(evidences), np.array(list(evidences.values()))

    def offers(round: int, rng: Generator) -> tuple[int, int]:
        if rng.random() > chance:
            return 0, 0
        return int(rng.integers(3, LONGEST)), int(rng.choice(kinds, p=weights / weights.sum()))

    return offers


@dataclass(frozen=True)
class Source:
    """`by_evidence` overrides the text for drafts of that evidence. `stops` is what it drafts at most by itself."""

    name: str
    text: Text
    cost: float = 0.0  # plain steps per drafted token
    free: bool = False
    offers: Offers = always
    by_evidence: dict[int, float] = field(default_factory=dict)
    stops: Callable[[Generator], int] = lambda rng: LONGEST
    reads: float = 0.0  # plain steps per token that it missed, before it drafts again

    def rates(self, round: int, evidence: int) -> Rates:
        return flat(self.by_evidence[evidence])(round) if evidence in self.by_evidence else self.text(round)


@dataclass
class Run:
    """Per round: expected tokens, true cost, and the best speed that was possible."""

    tokens: list[float] = field(default_factory=list)
    cost: list[float] = field(default_factory=list)
    best: list[float] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)

    def regret(self, start: int = 200) -> float:
        """The share of its time that the oracle would have saved for the same tokens."""
        tokens, cost, best = (np.array(rows[start:]) for rows in (self.tokens, self.cost, self.best))
        return 1 - float((tokens / best).sum() / cost.sum())

    def loss(self, tokens: int) -> float:
        """How much longer than plain decoding the first so many tokens took."""
        n = int(np.searchsorted(np.cumsum(self.tokens), tokens)) + 1
        return sum(self.cost[:n]) / sum(self.tokens[:n]) - 1

    def speed(self) -> float:
        """Expected tokens per plain step."""
        return sum(self.tokens) / sum(self.cost)

    def most_common(self, start: int, end: int) -> int:
        """The draft length that was chosen most often."""
        ks = [choice.k for choice in self.choices[start:end]]
        return max(set(ks), key=ks.count)


@dataclass
class Machine:
    """What passes and drafts take: noisy, now and then stalled, slower as the context grows."""

    table: tuple[float, ...] = CPU
    noise: float = 0.05
    stalls: float = 0.01
    growth: float = 0.0  # by how much all passes are slower after a thousand rounds
    slow: Callable[[int], float] = lambda round: 1.0

    def seconds(self, steps: float, round: int, rng: Generator) -> float:
        slowed = steps * self.slow(round) * (1 + self.growth * round / 1000)
        stall = 10 if rng.random() < self.stalls else 1
        return STEP_S * slowed * stall * float(np.exp(self.noise * rng.normal()))


@cache
def emits(rates: Rates) -> tuple[float, ...]:
    """E(0)..E(n)"""
    return tuple(accumulate(accumulate(rates, mul), initial=1.0))


@cache
def fastest(rates: Rates, available: int, draft: float, table: tuple[float, ...]) -> float:
    expected = emits(rates)
    return max(expected[k] / (table[k] + draft * k) for k in range(available + 1))


def simulate(
    sources: Iterable[Source],
    machine: Machine | None = None,
    rounds: int = 1200,
    *,
    seed: int = 0,
    controller: Controller | None = None,
) -> Run:
    """`rounds` rounds under a fresh controller, or the one that is handed in."""
    machine, controller, run = machine or Machine(), controller or Controller(), Run()
    by_name, rng = {source.name: source for source in sources}, default_rng(seed)
    missed = dict.fromkeys(by_name, 0)
    for r in range(rounds):
        offers = {name: source.offers(r, rng) for name, source in by_name.items()}
        rates = {name: source.rates(r, offers[name][1]) for name, source in by_name.items()}
        drafts = {name: _draft(name, rates[name], *offers[name], rng) for name in by_name}
        choice = controller.choose([Option(n, *offers[n], free=s.free) for n, s in by_name.items()])
        drafted: tuple[int, ...] = ()
        draft_s = cost = 0.0
        if choice.k > 0:
            source = by_name[choice.source]
            assert choice.k <= offers[source.name][0]
            drafted = drafts[source.name].tokens[: min(choice.k, source.stops(rng))]
            cost = source.cost * len(drafted) + source.reads * missed[source.name]
            missed[source.name] = 0
            draft_s = machine.seconds(cost, r, rng)
        pass_s = machine.seconds(machine.table[len(drafted)], r, rng)
        watched = {name: drafts[name] for name, source in by_name.items() if source.free}
        round = one_round(choice.source, drafted, draft_s, pass_s)
        controller.observe(choice, round, watched)
        for name in by_name.keys() - {choice.source}:
            missed[name] += len(round.emitted)
        run.choices.append(choice)
        run.cost.append(machine.table[len(drafted)] + cost)
        run.tokens.append(emits(rates[choice.source])[len(drafted)] if drafted else 1.0)
        best = [fastest(rates[n], offers[n][0], s.cost, machine.table) for n, s in by_name.items()]
        run.best.append(max(1.0, *best))
    return run


def _draft(name: str, rates: Rates, available: int, evidence: int, rng: Generator) -> Draft:
    wrong = np.flatnonzero(rng.random(available) >= rates[:available])
    right = int(wrong[0]) if wrong.size else available
    return Draft(((0,) * right + (1,) * available)[:available], source=name, evidence=evidence)


def one_round(
    source: str, drafted: tuple[int, ...], draft_s: float, pass_s: float, emitted: int | None = None
) -> Round:
    """A round in which the text is zeros; with `emitted`, the answer ends on that many drafted tokens."""
    right = drafted.index(1) if 1 in drafted else len(drafted)
    accepted = right if emitted is None else emitted
    return Round(
        method="auto",
        source=source,
        drafted=drafted,
        accepted=accepted,
        emitted=(0,) * (accepted + (emitted is None)),
        p=(),
        q=(),
        limit=LONGEST,
        draft_s=draft_s,
        verify_s=pass_s,
        sample_s=0.0,
        total_s=draft_s + pass_s,
    )


def mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


# What the tests try

MACHINES = {"cpu": Machine(CPU), "gpu": Machine(GPU)}
SEEDS = range(8)
BY_EVIDENCE = {2: 0.12, 3: 0.21, 4: 0.29, 5: 0.45, 6: 0.75, 7: 0.92}  # as measured for the suffix drafter
MIXED = {2: 0.5, 3: 0.2, 4: 0.1, 6: 0.1, 7: 0.1}  # how often a lookup has what evidence


def draft(text: Text, cost: float = 0.1, name: str = "draft") -> Source:
    return Source(name, text, cost)


def lookup(name: str = "lookup", chance: float = 0.4, mix: dict[int, float] | None = None) -> Source:
    offers = seldom(chance, mix or MIXED)
    return Source(name, flat(0.2), free=True, offers=offers, by_evidence=BY_EVIDENCE)


def liar(name: str = "lookup") -> Source:
    """Its evidence promises much, and nearly all of it is wrong."""
    return Source(name, flat(0.1), free=True, offers=seldom(0.4, MIXED))


def runs(*sources: Source, machine: Machine, rounds: int = 1000, seeds: Iterable[int] = SEEDS) -> list[Run]:
    return [simulate(sources, machine, rounds, seed=seed) for seed in seeds]


def regret(found: Iterable[Run]) -> float:
    return mean(run.regret() for run in found)
