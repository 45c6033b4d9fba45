"""What an attack is: cases by name, and for each what went wrong, or None."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from random import Random
from typing import TypeAlias

Case: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Trial:
    """What an attack works with. `short`: only a few cases, for the tests. `say` takes a measured figure."""

    folder: Path
    short: bool
    luck: Random
    say: Callable[[str], None]

    def few(self, all: int, few: int) -> int:
        return few if self.short else all


@dataclass(frozen=True, slots=True)
class Attack:
    door: str
    name: str
    run: Callable[[Trial], Iterator[Case]]
    brief: int  # cases in the short part; 0: none


@dataclass(slots=True)
class Tally:
    attack: Attack
    tried: int = 0
    seconds: float = 0.0
    faults: list[tuple[str, str]] = field(default_factory=list)
    figures: list[str] = field(default_factory=list)

    @property
    def passed(self) -> int:
        return self.tried - len(self.faults)


def attack(door: str, name: str, *, brief: int = 0) -> Callable[[Callable[[Trial], Iterator[Case]]], Attack]:
    def register(run: Callable[[Trial], Iterator[Case]]) -> Attack:
        return Attack(door, name, run, brief)

    return register


def carry_out(each: Attack, *, short: bool) -> Tally:
    tally, began = Tally(each), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="localspec-faults-") as folder:
        trial = Trial(Path(folder), short, Random(each.name), tally.figures.append)
        for case, wrong in islice(each.run(trial), each.brief if short else None):
            tally.tried += 1
            if wrong:
                tally.faults.append((case, wrong))
    tally.seconds = time.monotonic() - began
    if not tally.tried:
        tally.faults.append(("-", "no case was tried"))
        tally.tried = 1
    return tally
