"""The exact law of code that draws random numbers, by running it once for every way the draws can decide.

The code under test gets a generator whose `random()` returns a symbolic uniform number. Wherever the number is
compared (`u < x`, or a binary search in a cumulative sum) the run forks, and each branch carries the measure of its
interval. Nothing is sampled, and nothing of the code under test is written again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Outcome = TypeVar("Outcome", bound=Hashable)


def law(experiment: Callable[[Any], Outcome]) -> dict[Outcome, float]:
    """The probability of each outcome of `experiment(rng)`."""
    outcomes: dict[Outcome, float] = defaultdict(float)
    pending: list[tuple[int, ...]] = [()]
    while pending:
        run = Run(pending.pop())
        outcomes[experiment(run)] += run.probability
        pending += run.untried
    return dict(outcomes)


class Run:
    """One way through the forks: `path` decides the first ones, the rest take their first branch."""

    def __init__(self, path: tuple[int, ...]) -> None:
        self.probability = 1.0
        self.untried: list[tuple[int, ...]] = []
        self._path = path
        self._taken: tuple[int, ...] = ()

    def random(self) -> Uniform:
        return Uniform(self, Interval())

    def choose(self, measures: Sequence[float]) -> int:
        """The branch to take among those of positive measure (they sum to 1)."""
        possible = [i for i, measure in enumerate(measures) if measure > 0]
        depth = len(self._taken)
        if depth < len(self._path):
            branch = self._path[depth]
        else:
            branch = possible[0]
            self.untried += [(*self._taken, other) for other in possible[1:]]
        self._taken += (branch,)
        self.probability *= measures[branch]
        return branch


class Interval:
    """Where in [0, 1) a uniform number lies, as far as it has been decided."""

    def __init__(self) -> None:
        self.low, self.high = 0.0, 1.0


class Uniform:
    """scale * u + shift for a u that is uniform in an interval."""

    def __init__(self, run: Run, interval: Interval, scale: float = 1.0, shift: float = 0.0) -> None:
        self._run, self._interval, self._scale, self._shift = run, interval, scale, shift

    def __mul__(self, factor: float) -> Uniform:
        return Uniform(self._run, self._interval, self._scale * factor, self._shift * factor)

    def __sub__(self, offset: float) -> Uniform:
        return Uniform(self._run, self._interval, self._scale, self._shift - offset)

    def __lt__(self, threshold: float) -> bool:
        return self._locate(np.array([threshold])) == 0

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> int:
        assert function is np.searchsorted and args[1] is self and kwargs == {"side": "right"}
        count: int = self._locate(args[0])
        return count

    def _locate(self, edges: NDArray[np.float64]) -> int:
        """How many of the ascending `edges` are at most this number."""
        here = self._interval
        inner: list[float] = np.clip((edges - self._shift) / self._scale, here.low, here.high).tolist()
        bounds = [here.low, *inner, here.high]
        measures: list[float] = (np.diff(bounds) / (here.high - here.low)).tolist()
        branch: int = self._run.choose(measures)
        here.low, here.high = bounds[branch], bounds[branch + 1]
        return branch
