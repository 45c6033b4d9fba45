"""Several drafters under one controller: each round goes to whoever is expected to be fastest, or to nobody.

A drafter and a length policy in one, since the two choices are one argmax. With a single member it is that drafter
with an automatic length. Exact, because what is chosen depends on the past only: certain proposals are known before
anything is drawn and may be cut, the others are told their length first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from numpy.random import Generator

from localspec.errors import ModelError
from localspec.spec.advice import advise
from localspec.spec.controller import LADDER, PLAIN, Choice, Controller, Option
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Round, Tokens

_FAILURES = 3  # in a row: then the drafter is left alone
# After so many rounds without a draft the free members are asked in one of so many rounds: once a pass has driven their
# code out of the caches, asking them takes three per cent of a small model's step.
_QUIET, _REST = 16, 4
_RETOLD = 32  # rounds for which the reason of a pause holds: it is asked for fifty times a second


class Auto:
    """`members` in order of preference, all with names of their own; at most `longest` tokens per draft.

    Those with a true `free` attribute propose with certainty and in microseconds, so they are asked before the
    choice; the others after it. `problems` holds the reason of each member that failed too often.
    """

    def __init__(
        self, members: Sequence[Drafter], controller: Controller, name: str = "auto", longest: int = LADDER[-1]
    ) -> None:
        self.name = name
        self.controller = controller
        self.choice: Choice = PLAIN
        self.problems: dict[str, str] = {}
        self._longest = longest
        self._members = {member.name: member for member in members}
        self._free = {name for name, member in self._members.items() if getattr(member, "free", False)}
        self._found: dict[str, Draft] = {}  # what the free members propose for this round
        self._failures: Counter[str] = Counter()
        self._rounds = self._quiet = 0  # all, and those since the last draft
        self._told = "", 0, ""  # the rival, the round and the sentence

    def next(self) -> int:
        return self._longest

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        if self._rests():
            self._found = {}
            return Draft()
        self._found = {name: self._ask(name, context, limit, sampling, rng) for name in self._usable(self._free)}
        options = [Option(name, len(d.tokens), d.evidence, free=True) for name, d in self._found.items()]
        options += [Option(name, limit) for name in self._usable(self._members.keys() - self._free)]
        self.choice = choice = self.controller.choose(options)
        if choice.k == 0:
            return Draft()
        if choice.source in self._found:
            whole = self._found[choice.source]
            return replace(whole, tokens=whole.tokens[: choice.k])
        return self._ask(choice.source, context, choice.k, sampling, rng)

    def observe(self, round: Round) -> None:
        self._rounds += 1
        self._quiet = 0 if round.drafted else self._quiet + 1
        if round.limit:
            self.controller.observe(self.choice, round, self._found)
        else:  # no room to draft: nobody was asked, and the last choice is an old one
            self.controller.observe(PLAIN, round)

    @property
    def why(self) -> str:
        """The last choice and its reason, for people."""
        choice = self.choice
        if choice.k > 0:
            speed = "" if choice.speedup is None else f", {choice.speedup:.1f}x"
            return f"{choice.source}, k={choice.k}{speed}{', a trial' if choice.trial else ''}"
        if self.controller.measuring or choice.trial:
            return "measuring plain decoding"
        if not choice.rival:
            return "off: nothing to propose here"
        rival, since, _ = self._told
        if rival != choice.rival or self._rounds - since >= _RETOLD:
            self._told = choice.rival, self._rounds, advise(self.controller, choice.rival).sentence
        return f"off: {self._told[2]}"

    def close(self) -> None:
        """The members belong to whoever made them."""

    def _rests(self) -> bool:
        """Only where all members are free: the trials of the others have their own rhythm."""
        return self._quiet >= _QUIET and self._quiet % _REST > 0 and self._members.keys() == self._free

    def _usable(self, names: set[str]) -> list[str]:
        return [name for name in self._members if name in names and name not in self.problems]

    def _ask(self, name: str, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        """A failure of a drafter costs its draft, never the answer."""
        try:
            draft = self._members[name].draft(context, limit, sampling, rng)
        except ModelError as error:
            self._failures[name] += 1
            if self._failures[name] >= _FAILURES:
                self.problems[name] = f"{name} is left out, it failed {_FAILURES} times in a row: {error.message}"
            return Draft()
        self._failures[name] = 0
        return draft
