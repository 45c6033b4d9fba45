"""`localspec bench --sweep`: which settings are fastest for this model on this machine, and keep them if wanted.

Stage by stage: flash attention and cache type first, then the threads, then the batch of a prompt, each with the best
of the stages before. A setting is proposed only where it is faster by more than noise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from localspec import config, gguf
from localspec.bench import keeping, session, statistics
from localspec.bench.report import Report
from localspec.bench.sample import Sample
from localspec.bench.session import Request
from localspec.bench.statistics import Ratio, Work
from localspec.bench.tables import interval, number, times
from localspec.bench.variants import PLAIN, Setup
from localspec.bench.watching import Watching
from localspec.errors import UsageError
from localspec.llama import choices
from localspec.llama.devices import physical_cores
from localspec.model import ModelInfo, ModelSpec

GAIN = 1.02  # below this a setting is not worth a line in a file
TOKENS = 64
REPEATS = 2
_BATCHES = (128, 256, 512, 1024)
_ATTENTION = (("on", "q8_0"), ("on", "f16"), ("on", "bf16"), ("off", "f16"))


@dataclass(frozen=True, slots=True)
class Trial:
    """One setup in one stage, against the one in effect."""

    setup: Setup
    per_second: float | None
    ratio: Ratio | None


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    unit: str
    candidates: Callable[[Setup, ModelInfo], Sequence[Setup]]
    work: Callable[[Sample], Work]


def written(sample: Sample) -> Work:
    return Work(sample.reply.tokens, sample.reply.decode_s)


def read(sample: Sample) -> Work:
    return Work(sample.reply.prompt_tokens, sample.reply.prefill_s or 0.0)


def attention(base: Setup, model: ModelInfo) -> Sequence[Setup]:
    """Those that llama.cpp can do for this model."""
    found = [replace(base, flash_attn=flash, cache_type_k=kind, cache_type_v=kind) for flash, kind in _ATTENTION]
    return [setup for setup in found if _possible(setup, model) and not _current(setup, model)]


def threads(base: Setup, model: ModelInfo) -> Sequence[Setup]:
    cores = physical_cores()
    counts = sorted({max(1, cores // 2), max(1, cores - 1), cores} - {model.threads})  # more is never faster
    return [replace(base, threads=count) for count in counts]


def batches(base: Setup, model: ModelInfo) -> Sequence[Setup]:
    counts = sorted({*_BATCHES} - {model.n_batch})
    return [replace(base, n_batch=count) for count in counts if count <= model.n_ctx]


STAGES = (
    Stage("flash attention and cache", "tok/s", attention, written),
    Stage("threads", "tok/s", threads, written),
    Stage("prompt tokens in one pass", "tok/s", batches, read),
)


def sweep(request: Request, watch: Watching, stages: Sequence[Stage] = STAGES) -> tuple[Setup, list[str], bool]:
    """The best setup, the tables of all stages, and whether all of it was measured."""
    best, lines = Setup(), list[str]()
    for stage in stages:
        model = session.look(request, best)
        setups = (best, *stage.candidates(best, model))
        if len(setups) == 1:
            continue
        report = session.bench(_asked(request, setups), watch)
        tried = trials(report, setups, stage)
        lines += [*table(stage, tried, model), ""]
        best = winner(tried)
        if not report.outcome.complete:
            return best, lines, False
    return best, lines, True


def trials(report: Report, setups: Sequence[Setup], stage: Stage) -> list[Trial]:
    labels = dict(zip(setups, dict.fromkeys(row.label for row in report.rows), strict=True))
    sums = {setup: _by_prompt(report.outcome.samples, labels[setup], stage.work) for setup in setups}
    base = sums[setups[0]]
    found = []
    for setup, works in sums.items():
        both = sorted(works.keys() & base.keys())
        ratio = (
            statistics.speedup([works[p] for p in both], [base[p] for p in both]) if setup != setups[0] else None
        )
        spent = sum(work.seconds for work in works.values())
        speed = sum(work.tokens for work in works.values()) / spent if spent else None
        found.append(Trial(setup, speed, ratio))
    return found


def winner(tried: Sequence[Trial]) -> Setup:
    """The fastest of those that are faster than the first one for certain; else that one."""
    sure = [t for t in tried if t.ratio and t.ratio.certain and t.ratio.value >= GAIN]
    return max(sure, key=lambda t: t.ratio.value if t.ratio else 0.0).setup if sure else tried[0].setup


def table(stage: Stage, tried: Sequence[Trial], model: ModelInfo) -> Iterator[str]:
    yield f"{f'{stage.name}, {stage.unit}':36}{'':>9}{'against it':>12}  interval"
    best = winner(tried)
    for trial in tried:
        name = str(trial.setup) or session.settled(model).partition(", context")[0]
        name += " (in effect)" if trial is tried[0] else ""
        figures = f"{number(trial.per_second, '.1f'):>9}{times(trial.ratio):>12}  {interval(trial.ratio)}"
        mark = "  <- best" if trial.setup == best and trial is not tried[0] else ""
        yield (f"  {name:34}" if len(name) <= 34 else f"  {name}\n{'':36}") + (figures + mark).rstrip()


def settings(setup: Setup) -> dict[str, str | int]:
    """As keys of the config file."""
    names = ("flash_attn", "cache_type_k", "cache_type_v", "threads", "n_batch")
    return {name: value for name in names if (value := getattr(setup, name)) is not None}


def offer(values: dict[str, str | int], *, yes: bool, ask: Callable[[str], str] = input) -> Iterator[str]:
    """Write them if that is wanted. Yields what to say."""
    file = config.config_file()
    yield "\n".join(f"  {name} = {value!r}".replace("'", '"') for name, value in values.items())
    if not yes and not sys.stdin.isatty():
        yield f"Nothing was written; with --yes they go to {file}."
    elif yes or ask(f"Write this to {file}? It will hold for every model. [y/N] ").strip().lower() in ("y", "yes"):
        keeping.keep(file, values)
        yield f"Written to {file}."
    else:
        yield "Nothing was written."


def _asked(request: Request, setups: Sequence[Setup]) -> Request:
    """The same amount of work for all: no end tokens, the same seeds, in turns."""
    return replace(
        request,
        methods=(PLAIN,),
        temperatures=(0.0,),
        setups=tuple(setups),
        repeats=max(REPEATS, request.repeats),
        limits=replace(request.limits, full_length=True, max_tokens=min(TOKENS, request.limits.max_tokens)),
    )


def _possible(setup: Setup, model: ModelInfo) -> bool:
    try:
        choices.attention(setup.of(ModelSpec(model.path)), gguf.read(model.path), on_gpu=model.gpu_layers > 0)
    except UsageError:
        return False
    return True


def _current(setup: Setup, model: ModelInfo) -> bool:
    return (setup.flash_attn == "on", setup.cache_type_k, setup.cache_type_v) == (
        model.flash_attn,
        model.cache_type_k,
        model.cache_type_v,
    )


def _by_prompt(samples: Sequence[Sample], label: str, work: Callable[[Sample], Work]) -> dict[str, Work]:
    sums: dict[str, Work] = {}
    for sample in samples:
        if sample.variant == label:
            done, so_far = work(sample), sums.get(sample.task.prompt, Work(0, 0))
            sums[sample.task.prompt] = Work(so_far.tokens + done.tokens, so_far.seconds + done.seconds)
    return sums
