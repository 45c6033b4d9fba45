"""Several drafters under one controller: each round goes to whoever is expected to be fastest, or to nobody.

A drafter and a length policy in one, since the two choices are one argmax. With a single member it is that drafter
with an automatic length. Exact, because what is chosen depends on the past only: certain proposals are known before
anything is drawn and may be cut, the others are told their length first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from numpy.random import Generator

from localspec.spec.controller import LADDER, PLAIN, Choice, Controller, Option
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Round, Tokens


class Auto:
    """`members` in order of preference. Those with a true `free` attribute propose with certainty and in microseconds,
    so they are asked before the choice; the others after it."""

    def __init__(self, members: Sequence[Drafter], controller: Controller, name: str = "auto") -> None:
        self.name = name
        self.controller = controller
        self.choice: Choice = PLAIN
        self._members = {member.name: member for member in members}

    def next(self) -> int:
        return LADDER[-1]

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        found: dict[str, Draft] = {}
        options = []
        for name, member in self._members.items():
            if getattr(member, "free", False):
                found[name] = draft = member.draft(context, limit, sampling, rng)
                options.append(Option(name, len(draft.tokens), draft.evidence))
            else:
                options.append(Option(name, limit))
        self.choice = choice = self.controller.choose(options)
        if choice.k == 0:
            return Draft()
        if choice.source in found:
            whole = found[choice.source]
            return replace(whole, tokens=whole.tokens[: choice.k])
        return self._members[choice.source].draft(context, choice.k, sampling, rng)

    def observe(self, round: Round) -> None:
        # Where there was no room to draft, nobody was asked: the last choice is an old one.
        choice = self.choice if round.limit else PLAIN
        self.controller.learn(choice.source, choice.evidence, round.tested, round.accepted)
        self.controller.observe(
            choice,
            drafted=len(round.drafted),
            emitted=len(round.emitted),
            draft_s=round.draft_s,
            pass_s=round.total_s - round.draft_s,
        )

    @property
    def why(self) -> str:
        """The last choice and its reason, for people."""
        choice = self.choice
        if choice.speedup is None:
            return "measuring plain decoding" if choice.k == 0 else f"{choice.source}, k={choice.k}"
        if choice.k == 0:
            return f"off: the best draft would give {choice.speedup:.2f}x"
        probe = ", a trial" if choice.instead_of else ""
        return f"{choice.source}, k={choice.k}, {choice.speedup:.1f}x{probe}"

    def close(self) -> None:
        """The members belong to whoever made them."""
