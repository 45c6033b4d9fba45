"""Two reports side by side: what changed, and whether it is more than noise. Pure but for reading the files.

Two runs are two days: the machine may have been busier in one of them. So the speeds are compared, and beside them
the speed-ups over plain decoding, each measured within its own run, where a slower day cancels out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localspec.bench import statistics
from localspec.bench.figures import paired
from localspec.bench.report import Saved
from localspec.bench.sample import Sample
from localspec.bench.statistics import Ratio, Work
from localspec.bench.tables import interval, times

_LEAST = 0.01  # a change below this is not worth a word, however certain

_WHAT = {
    "settings": "max_tokens sampling full_length suite seed repeats",
    "environment": "localspec commit llama_cpp llama_cpp_python backend devices driver cpu threads os models numerics",
}


@dataclass(frozen=True, slots=True)
class Change:
    """Of one variant. `speed` compares tokens per second, `gain` the speed-ups over each run's own baseline."""

    variant: str
    prompts: int
    speed: Ratio
    gain: Ratio | None
    same_text: int
    compared: int

    @property
    def verdict(self) -> str:
        judged = self.gain or self.speed
        if judged.low is None:
            return "too few"
        if not judged.certain or abs(judged.value - 1) < _LEAST:
            return "noise"
        return "faster" if judged.value > 1 else "slower"


def changes(before: Saved, after: Saved) -> list[Change]:
    """For each variant that both have, over the prompts and turns that both have answered. Of many variants one is
    always the odd one out: so the intervals are as wide as it takes for all of them to be right together."""
    shared = [variant for variant in after.baselines if variant in before.baselines]
    level = 1 - (1 - statistics.LEVEL) / max(1, len(shared))
    found = (_change(before, after, variant, level) for variant in shared)
    return [change for change in found if change is not None]


def _change(before: Saved, after: Saved, variant: str, level: float) -> Change | None:
    old, new = _of(before.samples, variant), _of(after.samples, variant)
    places = old.keys() & new.keys()
    merged = [*_named(old, places, "old"), *_named(new, places, "new")]
    speed = statistics.speedup(*paired(merged, "new", "old"), level)
    if speed is None:
        return None
    texts = [_digest(before, variant, place) == _digest(after, variant, place) for place in sorted(places)]
    base, gain = after.baselines[variant], None
    if variant != base and before.baselines[variant] == base:
        gain = _gain(before, after, variant, base, level)
    return Change(variant, len({place[0] for place in places}), speed, gain, sum(texts), len(texts))


def _gain(before: Saved, after: Saved, variant: str, base: str, level: float) -> Ratio | None:
    rows = [_works(saved.samples, variant, base) for saved in (before, after)]
    prompts = sorted(rows[0].keys() & rows[1].keys())
    if not prompts:
        return None
    (old, old_base), (new, new_base) = (zip(*(row[prompt] for prompt in prompts), strict=True) for row in rows)
    return statistics.change((new, new_base), (old, old_base), level)


def _works(samples: Sequence[Sample], variant: str, base: str) -> dict[str, tuple[Work, Work]]:
    """By prompt, in a run of its own."""
    found = {}
    for prompt in dict.fromkeys(sample.task.prompt for sample in samples):
        ours, theirs = paired([s for s in samples if s.task.prompt == prompt], variant, base)
        if ours:
            found[prompt] = ours[0], theirs[0]
    return found


_Place = tuple[str, int, int]


def _of(samples: Sequence[Sample], variant: str) -> dict[_Place, Sample]:
    return {(s.task.prompt, s.task.turn, s.repeat): s for s in samples if s.variant == variant}


def _named(samples: Mapping[_Place, Sample], places: set[_Place], name: str) -> Iterator[Sample]:
    for place in sorted(places):
        found = samples[place]
        yield Sample(name, found.task, found.repeat, found.reply)


def _digest(saved: Saved, variant: str, place: _Place) -> str:
    return saved.digests[(variant, *place)]


def lines(before: Saved, after: Saved) -> Iterator[str]:
    """For a terminal of 80 columns."""
    for name, saved in (("A", before), ("B", after)):
        stopped = "" if saved.document.get("complete") else ", stopped before the end"
        yield f"{name}: {saved.path.name}, {saved.document['created']}{stopped}"
    yield ""
    found = list(differences(before.document, after.document))
    yield "Not the same in both:" if found else "Settings and environment are the same."
    yield from (f"  {line}" for line in found)
    yield ""
    rows = changes(before, after)
    if not rows:
        yield "The two have no variant and prompt in common: there is nothing to compare."
        return
    yield f"{'B against A':20}{'speed':>7}  {'interval':11}{'speed-up':>9}  {'interval':11}{'text':>5}"
    for row in rows:
        label = f"{row.variant:20}" if len(row.variant) < 20 else f"{row.variant}\n{'':20}"
        yield (
            f"{label}{times(row.speed):>7}  {interval(row.speed):11}{times(row.gain):>9}  {interval(row.gain):11}"
            f"{row.same_text:>3}/{row.compared:<4} {row.verdict}"
        ).rstrip()
    yield ""
    yield "speed: tokens per second, B over A, the state of the machine included."
    yield "speed-up: over plain decoding of the same run, B over A; the verdict goes by it."
    yield f"text: equal ones of all compared. Intervals: {statistics.LEVEL:.0%}, all rows together."


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    for part, names in _WHAT.items():
        for name in names.split():
            old, new = before.get(part, {}).get(name), after.get(part, {}).get(name)
            if old != new:
                yield from _difference(name, old, new)
    for label in sorted({v["label"] for v in before["variants"]} ^ {v["label"] for v in after["variants"]}):
        yield f"{label}: only in one of them"


def _difference(name: str, old: Any, new: Any) -> Iterator[str]:
    """Only the keys that differ, where both are tables."""
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (a, b) in enumerate(zip(old, new, strict=True), 1):
            if a != b:
                yield from _difference(f"{name} {number}", a, b)
    elif isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                yield from _difference(f"{name}, {key}", old.get(key), new.get(key))
    else:
        yield f"{name}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 24 else text[:21] + "..."
