"""From samples to the figures of a variant: overall and by category. Pure folds; sums first, division last."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median

from localspec.bench import statistics
from localspec.bench.sample import Sample
from localspec.bench.statistics import Ratio, Work

ALL = "all"


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one variant in one category, or in all of them. None where nothing was counted."""

    variant: str
    category: str
    answers: int
    tokens: int
    tokens_per_second: float | None
    prefill_tokens_per_second: float | None
    ttft_s: float | None  # median over answers
    total_s: float
    latency_s: tuple[float, float, float] | None  # p50, p95, p99 over tokens
    rounds: int | None
    drafted: int | None
    tested: int | None
    accepted: int | None
    cut: int | None
    acceptance_rate: float | None
    acceptance_of: str | None  # what the rate divides by: "tested"; "drafted" where the contestant doesn't say
    mean_acceptance_length: float | None
    positions: tuple[tuple[int, int], ...]
    draft_s: float | None
    verify_s: float | None
    sample_s: float | None
    host_s: float | None
    decode_s: float
    speedup: Ratio | None = None


def by_category(samples: Sequence[Sample], baselines: dict[str, str]) -> list[Figures]:
    """For each variant, in the order of `baselines` (variant -> what it is compared with), all and each category."""
    categories = list(dict.fromkeys(sample.task.category for sample in samples))
    rows = []
    for category in (ALL, *categories):
        within = [sample for sample in samples if category in (ALL, sample.task.category)]
        for variant, base in baselines.items():
            own = [sample for sample in within if sample.variant == variant]
            if own:
                ratio = None if variant == base else speedup(within, variant, base)
                rows.append(fold(own, variant, category, ratio))
    return rows


def speedup(samples: Iterable[Sample], variant: str, base: str) -> Ratio | None:
    """Over the answers that both gave, prompt by prompt."""
    ours, theirs = paired(samples, variant, base)
    return statistics.speedup(ours, theirs)


def paired(samples: Iterable[Sample], variant: str, base: str) -> tuple[list[Work], list[Work]]:
    """By prompt: the sums over the turns and repeats that both have answered."""
    cells: dict[tuple[str, int, int], dict[str, Work]] = defaultdict(dict)
    for sample in samples:
        place = (sample.task.prompt, sample.task.turn, sample.repeat)
        cells[place][sample.variant] = Work(sample.reply.tokens, sample.reply.decode_s)
    sums: dict[str, list[Work]] = {}
    for (prompt, _, _), cell in cells.items():
        if variant in cell and base in cell:
            pair = sums.setdefault(prompt, [Work(0, 0), Work(0, 0)])
            sums[prompt] = [_plus(pair[0], cell[variant]), _plus(pair[1], cell[base])]
    return [pair[0] for pair in sums.values()], [pair[1] for pair in sums.values()]


def fold(samples: Sequence[Sample], variant: str, category: str, ratio: Ratio | None = None) -> Figures:
    replies = [sample.reply for sample in samples]
    tokens, decode_s = sum(r.tokens for r in replies), sum(r.decode_s for r in replies)
    read = [(r.prompt_tokens - r.reused_tokens, r.prefill_s) for r in replies if r.prefill_s]
    drafted, tested, accepted = (_sum(replies, name) for name in ("drafted", "tested", "accepted"))
    rounds, cut = _sum(replies, "rounds"), _sum(replies, "cut")
    of = "tested" if tested is not None else "drafted" if drafted is not None else None
    divisor = tested if tested is not None else drafted
    latency = [(seconds / n, n) for r in replies for n, seconds in r.latency if n]
    return Figures(
        variant=variant,
        category=category,
        answers=len(replies),
        tokens=tokens,
        tokens_per_second=_ratio(tokens, decode_s),
        prefill_tokens_per_second=_ratio(sum(n for n, _ in read), sum(s for _, s in read)),
        ttft_s=median(found) if (found := [r.ttft_s for r in replies if r.ttft_s is not None]) else None,
        total_s=sum(r.total_s for r in replies),
        latency_s=statistics.percentiles([gap for gap, _ in latency], [n for _, n in latency]),
        rounds=None if rounds is None else int(rounds),
        drafted=None if drafted is None else int(drafted),
        tested=None if tested is None else int(tested),
        accepted=None if accepted is None else int(accepted),
        cut=None if cut is None else int(cut),
        acceptance_rate=_ratio(accepted, divisor),
        acceptance_of=of,
        mean_acceptance_length=_ratio(tokens, rounds),
        positions=positions(samples),
        draft_s=_sum(replies, "draft_s"),
        verify_s=_sum(replies, "verify_s"),
        sample_s=_sum(replies, "sample_s"),
        host_s=_total(sample.host_s for sample in samples),
        decode_s=decode_s,
        speedup=ratio,
    )


def positions(samples: Iterable[Sample]) -> tuple[tuple[int, int], ...]:
    """Acceptance at each place of a draft, as (reached, accepted)."""
    columns = zip_longest(*(sample.reply.positions for sample in samples), fillvalue=(0, 0))
    return tuple((sum(r for r, _ in column), sum(a for _, a in column)) for column in columns)


def _plus(a: Work, b: Work) -> Work:
    return Work(a.tokens + b.tokens, a.seconds + b.seconds)


def _sum(replies: Iterable[object], name: str) -> float | None:
    return _total(getattr(reply, name) for reply in replies)


def _total(values: Iterable[float | None]) -> float | None:
    """None where one is unknown: a sum over part of the answers would be compared with one over all of them."""
    found = list(values)
    return sum(value for value in found if value is not None) if found and None not in found else None


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None
