"""Who drafts next, and how much: the argmax of expected tokens per second, plain decoding included.

speed(source, k) = E(k) / (verify cost of k + 1 rows + draft cost of k tokens), against 1 / (cost of one row). E
comes from acceptance.py, the costs from costs.py, both measured in real rounds. The choice looks at the past and at
what stands in the context, never at a token that was drawn, so the verifier stays exact (docs/exactness.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from localspec.spec.acceptance import Acceptance
from localspec.spec.costs import Costs

# Few widths, so that each gets measured and the compute graph of each is built once.
LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 23, 31)
OPT = 0.5
_MARGIN = 1.03  # below this the measurement is noise, and plain decoding is the calm choice
_PLAIN_SAMPLES = 3
_PLAIN_EVERY = 64  # rounds after which the plain cost is measured again while something else wins
_FIRST_DEPTH, _LAST_DEPTH = 4, 256
_FIRST_PROBE, _LAST_PROBE = 16, 1024
_WASTE = 0.005  # probes of losers may cost this share of the time, no more


@dataclass(frozen=True, slots=True)
class Option:
    """What one drafter could do now: at most `available` tokens, found with that much `evidence`."""

    source: str
    available: int
    evidence: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """`speedup` is the expected one over plain decoding, None while that is being measured."""

    source: str
    k: int
    evidence: int = 0
    speedup: float | None = None
    probe: bool = False


PLAIN = Choice("off", 0)


@dataclass(slots=True)
class _Probe:
    """When a losing option was last tried, and how long to wait until the next try."""

    last: int = 0
    interval: int = _FIRST_PROBE
    going_well: bool = False


@dataclass(slots=True)
class _Depth:
    """The draft length that wins, and the rounds left until the next longer one is tried."""

    k: int = 0
    interval: int = 0
    left: int = 0


@dataclass(slots=True)
class Controller:
    costs: Costs = field(default_factory=Costs)
    acceptance: Acceptance = field(default_factory=Acceptance)
    _round: int = 0
    _plain_at: int = 0
    _plain_samples: int = 0
    _depths: dict[tuple[str, int], _Depth] = field(default_factory=dict)
    _probes: dict[tuple[str, int], _Probe] = field(default_factory=dict)

    def choose(self, options: Sequence[Option]) -> Choice:
        """The best of the options and plain decoding; now and then a measurement of what is not the best."""
        self._round += 1
        options = [option for option in options if option.available > 0]
        if not options:
            return PLAIN
        if self._plain_samples < _PLAIN_SAMPLES or self._round - self._plain_at > _PLAIN_EVERY:
            return PLAIN
        choices = [self.best(option) for option in options]
        best = max(choices, key=_speedup)
        if _speedup(best) > _MARGIN:
            self._probe(best).interval = _FIRST_PROBE
            return self._deeper(
                best, next(o for o in options if o.source == best.source and o.evidence == best.evidence)
            )
        return self._overdue(choices) or Choice("off", 0, speedup=_speedup(best))

    def best(self, option: Option) -> Choice:
        """The draft length at which this option is fastest, and how much faster than plain decoding."""
        return max(self.curve(option), key=_speedup)

    def curve(self, option: Option) -> list[Choice]:
        """Every draft length of the ladder that is available, with its expected speed-up."""
        plain = self.costs.verify(1)
        expected = self.acceptance.expected(option.source, option.evidence, option.available, OPT)
        return [
            Choice(option.source, k, option.evidence, expected[k] * plain / self._cost(option.source, k))
            for k in _lengths(option.available)
        ]

    def observe(
        self, choice: Choice, *, drafted: int, tested: int, accepted: int, draft_s: float, pass_s: float
    ) -> None:
        """What the round really cost and gave. `pass_s` is everything but the drafting."""
        self.costs.observe(drafted + 1, pass_s)
        if drafted == 0:
            self._plain_at = self._round
            self._plain_samples += 1
        if choice.k > 0:
            self.costs.observe_draft(choice.source, drafted, draft_s)
        if drafted > 0:
            self.acceptance.observe(choice.source, choice.evidence, tested, accepted)
            probe = self._probe(choice)
            probe.going_well = accepted == drafted
            if choice.probe and not probe.going_well:
                probe.interval = min(2 * probe.interval, _LAST_PROBE)

    def _cost(self, source: str, k: int) -> float:
        return self.costs.verify(k + 1) + self.costs.draft(source, k)

    def _deeper(self, best: Choice, option: Option) -> Choice:
        """The best, or now and then one step beyond it: what is never drafted is never learned."""
        depth = self._depths.setdefault((best.source, best.evidence), _Depth())
        if depth.k != best.k:
            depth.k, depth.interval, depth.left = best.k, _FIRST_DEPTH, _FIRST_DEPTH
        depth.left -= 1
        longer = [k for k in _lengths(option.available) if k > best.k]
        if depth.left > 0 or not longer:
            return best
        depth.interval = depth.left = min(2 * depth.interval, _LAST_DEPTH)
        return replace(best, k=longer[0], probe=True)

    def _overdue(self, choices: Iterable[Choice]) -> Choice | None:
        """A losing option whose turn to be tried has come: the wait doubles with each trial that is not accepted in
        full, and after one that is, the next trial follows at once."""
        for choice in choices:
            probe = self._probe(choice)
            short = min(choice.k, 3)
            loss = self._cost(choice.source, short) / self.costs.verify(1) - 1
            wait = float(probe.interval)
            if probe.going_well:
                wait = 0.0
            elif self.costs.settled(short + 1):
                wait = max(wait, loss / _WASTE)
            if self._round - probe.last >= wait:
                probe.last = self._round
                return Choice(choice.source, short, choice.evidence, choice.speedup, probe=True)
        return None

    def _probe(self, choice: Choice) -> _Probe:
        return self._probes.setdefault((choice.source, choice.evidence), _Probe(last=self._round))


def _lengths(available: int) -> list[int]:
    """The ladder up to what is available, which itself is a length too when the ladder steps over it."""
    lengths = [k for k in LADDER if k <= available]
    return lengths if available > LADDER[-1] or available in lengths else [*lengths, available]


def _speedup(choice: Choice) -> float:
    return choice.speedup or 0.0
