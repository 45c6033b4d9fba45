"""`localspec bench`: loads, measures, and hands over the report. Standard output is the result, standard error what is
being done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from localspec.bench import programs
from localspec.bench.contestants import Beside, Venue, load_with
from localspec.bench.peers import Peer, Site, visit
from localspec.bench.report import Report, Row, now
from localspec.bench.runner import Plan, measure
from localspec.bench.subject import Limits, Subject
from localspec.bench.suite import Prompt, Suite
from localspec.bench.surroundings import surroundings
from localspec.bench.variants import PLAIN, Setup, Variant, grid, labels
from localspec.bench.watching import Watching
from localspec.engine.messages import Load
from localspec.errors import UnknownName, UsageError
from localspec.model import ModelInfo


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked of a benchmark. `methods` None: all that work with what is loaded."""

    title: str
    load: Load
    suite: Suite
    prompts: tuple[Prompt, ...]
    limits: Limits
    methods: tuple[str, ...] | None = None
    draft_lengths: tuple[int | None, ...] = (None,)
    verifiers: tuple[str, ...] = ("block",)
    temperatures: tuple[float, ...] = (0.0,)
    setups: tuple[Setup, ...] = (Setup(),)
    repeats: int = 1
    warmup: int = 1
    seed: int = 1
    programs: tuple[programs.Program, ...] = ()
    urls: tuple[str, ...] = ()
    wanted: Callable[[Variant], bool] = lambda variant: True  # of the combinations; plain decoding stays


@dataclass(slots=True)
class _Loads:
    """What was loaded, by setup, and the most that it took."""

    infos: dict[Setup, ModelInfo] = field(default_factory=dict)
    subject: Subject | None = None
    environment: Any = None
    device_bytes: int = 0

    def opened(self, setup: Setup, subject: Subject) -> None:
        self.infos[setup], self.subject = subject.ready.target, subject

    def closing(self, subject: Subject) -> None:
        self.environment, self.subject = subject.environment, None
        self.device_bytes = max(self.device_bytes, subject.device_bytes)

    def stop(self) -> None:
        if self.subject is not None:
            self.subject.stop()


def bench(request: Request, watch: Watching) -> Report:
    """Ends early, with what was done, when the watch says so."""
    loads, began = _Loads(), monotonic()
    watch.on_stop = loads.stop
    first = Subject(load_with(request.load, request.setups[0]), watch.tell)
    with ExitStack() as stack:
        stack.callback(first.close)
        variants = _variants(request, first)
        named = labels(variants)
        beside, sites = _peers(request, first.ready.target, stack)
        venue = Venue(request.load, request.limits, beside, first, loads, watch.tell)
        plan = Plan(request.prompts, request.repeats, request.warmup, request.seed)
        with watch.interruptible():
            outcome = measure(venue.openings(named), plan, watch)
    return Report(
        title=request.title,
        created=now(),
        settings=_settings(request),
        environment=surroundings(loads.environment or first.environment, loads.device_bytes),
        loads=[{"label": str(setup), "settings": settled(info)} for setup, info in loads.infos.items()],
        rows=[*_rows(named, request), *_peer_rows(beside, sites, named, request)],
        outcome=outcome,
        seconds=monotonic() - began,
    )


def look(request: Request, setup: Setup) -> ModelInfo:
    """What this setup comes to when it is loaded."""
    subject = Subject(load_with(request.load, setup), lambda text: None)
    try:
        return subject.ready.target
    finally:
        subject.close()


def settled(info: ModelInfo) -> str:
    """The settings that a load came to, for people."""
    flash = "on" if info.flash_attn else "off"
    layers = f"{info.gpu_layers} layers on the GPU, " if info.gpu_layers else ""
    return (
        f"flash attention {flash}, cache {info.cache_type_k}/{info.cache_type_v}, {layers}{info.threads} threads, "
        f"context {info.n_ctx:,}"
    )


def _variants(request: Request, subject: Subject) -> tuple[Variant, ...]:
    """Refuses what can't be done: a benchmark of something else than was asked for is worse than none."""
    available, reasons = subject.ready.methods, dict(subject.ready.reasons)
    methods = request.methods or (PLAIN, *(name for name in available if name != PLAIN))
    for method in methods:
        if method in reasons:
            raise UsageError(f"Method {method} can't be measured: {reasons[method]}.")
        if method not in available:
            raise UnknownName("method", method, available)
    most = subject.loaded.target.max_rows - 1
    for length in request.draft_lengths:
        if length is not None and length > most:
            raise UsageError(f"--draft-lengths has {length}.", f"One pass checks at most {most} drafted tokens.")
    found = grid(methods, request.draft_lengths, request.verifiers, request.temperatures, request.setups)
    return tuple(variant for variant in found if variant.plain or request.wanted(variant))


def _peers(request: Request, model: ModelInfo, stack: ExitStack) -> tuple[list[Beside], dict[str, Site]]:
    """Started or visited, one contestant for each temperature."""
    sites: dict[str, Site] = {}
    for program in request.programs:
        sites[program.label] = stack.enter_context(programs.running(program, model))
    for url in request.urls:
        address, _, model_name = url.partition("#")
        sites[address] = visit(address, model_name)
    several = len(request.temperatures) > 1
    beside = [
        Beside(Peer(f"{label} T={t:g}" if several else label, site, request.limits, t), t, label)
        for label, site in sites.items()
        for t in request.temperatures
    ]
    return beside, sites


def _settings(request: Request) -> dict[str, Any]:
    limits = request.limits
    sampling = asdict(limits.sampling)
    del sampling["temperature"], sampling["seed"]  # each variant has its own, each answer its own
    return {
        "max_tokens": limits.max_tokens,
        "full_length": limits.full_length,
        "stop": list(limits.stop),
        "system": limits.system,
        "sampling": sampling,
        "seed": request.seed,
        "repeats": request.repeats,
        "warmup": request.warmup,
        "caches": "empty before each answer",
        "order": "in turns on each prompt",
        "suite": {
            "name": request.suite.name,
            "sha256": request.suite.fingerprint,
            "prompts": len(request.prompts),
            "categories": list(dict.fromkeys(prompt.category for prompt in request.prompts)),
        },
    }


def _rows(named: dict[Variant, str], request: Request) -> list[Row]:
    return [
        Row(
            label,
            named[variant.baseline(request.setups[0])],
            details={
                **{name: getattr(variant, name) for name in ("method", "draft_tokens", "verifier", "temperature")},
                "setup": asdict(variant.setup),
            },
        )
        for variant, label in named.items()
    ]


def _peer_rows(
    beside: Sequence[Beside], sites: dict[str, Site], named: dict[Variant, str], request: Request
) -> list[Row]:
    return [
        Row(
            each.contestant.label,
            named[Variant(temperature=each.temperature, setup=request.setups[0])],
            kind=sites[each.site].kind,
            details={"temperature": each.temperature, **sites[each.site].told},
        )
        for each in beside
    ]


def remarks(report: Report) -> Iterator[str]:
    """Peers that read other prompts than we do, so that they answered something else."""
    samples = report.outcome.samples
    ours = {(s.task, s.repeat): s.reply.prompt_tokens for s in samples if s.variant == report.rows[0].label}
    for row in report.rows:
        own = [s for s in samples if s.variant == row.label and (s.task, s.repeat) in ours]
        apart = sum(s.reply.prompt_tokens != ours[s.task, s.repeat] for s in own)
        if apart and row.kind != "localspec":
            yield (
                f"{row.label} read another number of prompt tokens in {apart} of {len(own)} answers: its chat "
                "template is not the same."
            )
