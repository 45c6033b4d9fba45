"""Who drafts next, and how much: the argmax of expected tokens per second, plain decoding included.

speed(drafter, k) = E(k) / (cost of the pass + cost of the draft), with costs in plain steps, so that it is the
speed-up over plain decoding. Both sides are measured in real rounds (acceptance.py, costs.py). What is not the best is
tried from time to time, since only what is tried is known. The choice looks at the past and at what stands in the
context, never at a token that was drawn, so the verifier stays exact (docs/exactness.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from localspec.spec.acceptance import Acceptance
from localspec.spec.costs import Costs
from localspec.spec.trials import Trials
from localspec.spec.types import Draft, Round

# Few widths, so that each gets measured and the compute graph of each is built once.
LADDER = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 19, 23, 31, 47, 63)
MARGIN = 1.02  # below this the measurement is noise, and plain decoding is the calm choice
LONGER, SHORTER = "longer", "shorter"  # trials of other draft lengths by the drafter that wins
_PLAIN_SAMPLES = 3  # plain rounds before anything is chosen: their median stands a stall
_SEEN = 2.5  # observations (which fade) before an estimate is believed: three, since two may be luck;
_SEEN_FREE = 0.5  # one for a proposal whose evidence has a meaning already
_LITTLE = 10.0  # observations below which an estimate is so vague that it is worth a trial sooner
_PROMISING = 1.3  # tokens per round below which a trial of a drafter that is watched anyway can't pay


@dataclass(frozen=True, slots=True)
class Option:
    """What one drafter could do now: at most `available` tokens, found with that much `evidence`. A `free` one has
    its proposal ready whether it is used or not, so that it can be watched without being used."""

    source: str
    available: int
    evidence: int = 0
    free: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """`speedup` is the expected one over plain decoding; with k = 0, that of the best `rival`. None where there was
    nothing to compare. `trial` says what is tried, if this is a trial."""

    source: str
    k: int
    evidence: int = 0
    speedup: float | None = None
    trial: str = ""
    rival: str = ""


PLAIN = Choice("off", 0)


@dataclass(slots=True)
class Controller:
    costs: Costs = field(default_factory=Costs)
    acceptance: Acceptance = field(default_factory=Acceptance)
    _trials: Trials = field(default_factory=Trials)
    _last: str = "off"  # who drafted in the round before

    @property
    def measuring(self) -> bool:
        """Whether plain decoding has yet to be measured."""
        return self.costs.samples < _PLAIN_SAMPLES

    def choose(self, options: Sequence[Option]) -> Choice:
        """The best of the options and plain decoding; now and then a trial of what is not the best."""
        options = [option for option in options if option.available > 0]
        if self.measuring or not options:
            return PLAIN
        curves = [self.speedups(option) for option in options]
        # What was hardly seen is not believed: it begins with trials, or is watched first.
        seen = [_fastest(o, curve) for o, curve in zip(options, curves, strict=True) if self._seen(o)]
        best = max(seen, key=_speed, default=PLAIN)
        if _speed(best) < MARGIN:
            best = Choice("off", 0, speedup=best.speedup, rival=best.source)
        return self._trial(best, options, curves) or best

    def speedups(self, option: Option) -> dict[int, float]:
        """By draft length, as far as it is possible. None is more than about twice as long as what was seen before,
        of this kind of draft and on this machine, so that a wrong guess costs little."""
        depth = self.acceptance.depth(option.source, option.evidence)
        most = min(option.available, 2 * depth + 1, 2 * self.costs.widest - 1)
        expected = self.acceptance.expected(option.source, option.evidence, most)
        drafted = self.acceptance.drafted(option.source, most)
        return {k: expected[k] / self._cost(option.source, drafted[k]) for k in LADDER if k <= most}

    def observe(self, choice: Choice, round: Round, watched: Mapping[str, Draft] | None = None) -> None:
        """What the round really cost and gave. `watched` are the proposals of the free drafters, used or not."""
        drafted = len(round.drafted)
        self.costs.observe(drafted + 1, round.total_s - round.draft_s)
        for source, draft in (watched or {}).items():
            self._watch(source, draft, round.emitted)
        extra = self._learn(choice, round) if choice.k > 0 and choice.source not in (watched or {}) else 0.0
        self._last = choice.source
        self._trials.passed(
            choice.trial or choice.source,
            trial=bool(choice.trial),
            cost=self._cost(choice.source, drafted) + extra,
            tokens=len(round.emitted),
        )

    def _watch(self, source: str, draft: Draft, emitted: Sequence[int]) -> None:
        """Compare with what came: the text follows the target's law whoever drafted it, so a certain proposal is
        right as often as it would have been accepted."""
        tested = min(len(draft.tokens), len(emitted))
        right = next((i for i in range(tested) if draft.tokens[i] != emitted[i]), tested)
        self.acceptance.observe(source, draft.evidence, min(right + 1, tested), right)

    def _learn(self, choice: Choice, round: Round) -> float:
        """From a draft that was made for this round. Returns the plain steps that a long pause has cost."""
        drafted, tested = len(round.drafted), round.tested
        if round.accepted == drafted < choice.k and not round.cut:
            tested += 1  # it stopped by itself where it could have gone on: no token there
        self.acceptance.observe(choice.source, choice.evidence, tested, round.accepted)
        self.acceptance.observe_length(choice.source, choice.k, drafted)
        in_step = self._last == choice.source
        return self.costs.observe_draft(choice.source, drafted, round.draft_s, in_step=in_step)

    def _trial(
        self, best: Choice, options: Sequence[Option], curves: Sequence[Mapping[int, float]]
    ) -> Choice | None:
        top = _speed(best) if best.k > 0 else 1.0
        arms: dict[str, tuple[Choice, float]] = {}  # what could be tried, and its expected loss
        if best.k > 0:
            arms["off"] = PLAIN, 1 - 1 / top
        for option, curve in zip(options, curves, strict=True):
            if option.source == best.source:
                for what, arm in _other_lengths(option, curve, best.k):
                    arms[what] = arm, self._loss(arm, top)
            elif not option.free or (best.k == 0 and self._promising(option)):
                arm = _fastest(option, {1: curve[1]})
                arms[option.source] = arm, self._loss(arm, top)
        watched = {option.source for option in options if option.free}
        due = self._trials.due({what: loss for what, (_, loss) in arms.items()}, top, watched)
        return replace(arms[due][0], trial=due) if due else None

    def _loss(self, arm: Choice, top: float) -> float:
        """Plain steps that a trial is expected to lose against the best, less where the estimate is vague."""
        weight = self.acceptance.weight(arm.source, arm.evidence, arm.k)
        loss = self._cost(arm.source, arm.k) * (1 - _speed(arm) / top)
        returning = 0.0 if arm.source == self._last else self.costs.returning(arm.source)
        return loss * weight / (weight + _LITTLE) + returning

    def _promising(self, option: Option) -> bool:
        """Whether a proposal whose acceptance is known anyway would pay if a pass cost less than it seems to."""
        seen = self.acceptance.expected(option.source, option.evidence, 1)[1] >= _PROMISING
        return seen and self._seen(option)

    def _seen(self, option: Option) -> bool:
        weight = self.acceptance.weight(option.source, option.evidence)
        return weight > (_SEEN_FREE if option.free else _SEEN)

    def _cost(self, source: str, drafted: float) -> float:
        return self.costs.verify(drafted + 1) + self.costs.draft(source, drafted)


def _fastest(option: Option, curve: Mapping[int, float]) -> Choice:
    k = max(curve, key=curve.__getitem__)
    return Choice(option.source, k, option.evidence, curve[k])


def _other_lengths(option: Option, curve: Mapping[int, float], k: int) -> Iterator[tuple[str, Choice]]:
    longer = {length: speed for length, speed in curve.items() if length > k}
    shorter = {length: speed for length, speed in curve.items() if length < k}
    if longer:
        yield LONGER, _fastest(option, longer)
    if shorter:
        yield SHORTER, _fastest(option, shorter)


def _speed(choice: Choice) -> float:
    return choice.speedup or 0.0
