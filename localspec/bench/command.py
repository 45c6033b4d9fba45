"""From the flags of `localspec bench` to a request, and from its report to the terminal and to files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from localspec import settle
from localspec.bench import compare as comparing
from localspec.bench import files, programs, session, suite, tables, tune, variants
from localspec.bench.flags import OutputFlags, PeerFlags, SuiteFlags, VariantFlags
from localspec.bench.report import read
from localspec.bench.session import Request
from localspec.bench.subject import Limits
from localspec.bench.watching import Watching
from localspec.config import Config
from localspec.errors import UsageError
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags
from localspec.methods import canonical
from localspec.spec import lossy
from localspec.spec.settings import Sampling

MAX_TOKENS = 128
SEED = 1
STOPPED_BY_USER = 130
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Numerics:
    """The one flag of the variants that is a setting as well."""

    numerics: str | None


def bench(request: Request, output: OutputFlags) -> int:
    files.prepare(output.json_file, output.report)
    watch = Watching()
    report = session.bench(request, watch)
    print("\n".join(tables.lines(report)))
    for remark in session.remarks(report):
        watch.tell(remark)
    for path in files.save(report, output.json_file, output.report):
        watch.tell(f"wrote {path}")
    return 0 if report.outcome.complete else STOPPED_BY_USER


def sweep(request: Request, *, yes: bool) -> int:
    watch = Watching()
    best, lines, complete = tune.sweep(request, watch)
    print("\n".join(lines))
    if not complete:
        print("Stopped before the end: nothing is proposed.")
        return STOPPED_BY_USER
    if values := tune.settings(best):
        print("Faster here than the settings in effect:")
        for text in tune.offer(values, yes=yes):
            print(text)
    else:
        print("The settings in effect are as fast as any that were tried.")
    return 0


def compare(before: Path, after: Path) -> None:
    print("\n".join(comparing.lines(read(before), read(after))))


def asked(
    model: ModelFlags,
    flags: VariantFlags,
    prompts: SuiteFlags,
    peers: PeerFlags,
    sampling: SamplingFlags,
    answer: AnswerFlags,
) -> Request:
    """Checked as far as it can be before a model is loaded. Temperature, length and seed are the benchmark's own
    unless a flag says otherwise: a config file that is made for chatting must not decide what is measured."""
    settings, apart = settle.settle(model, sampling, answer, _Numerics(flags.numerics))
    found = suite.read(prompts.suite)
    load, title = settle.load(settings, apart)
    return Request(
        title=title,
        load=load,
        suite=found,
        prompts=suite.chosen(found, tuple(prompts.category or ()), prompts.limit),
        limits=_limits(settings, apart, answer, full_length=prompts.full_length),
        methods=_listed("--methods", flags.methods, canonical) if flags.methods else None,
        draft_lengths=_listed("--draft-lengths", flags.draft_lengths or "auto", _length),
        verifiers=_listed("--verifiers", flags.verifiers or "block", _verifier),
        temperatures=_temperatures(flags.temperatures, sampling.temperature),
        setups=variants.read_setups(flags.attention) if flags.attention else (variants.Setup(),),
        repeats=prompts.repeats,
        warmup=prompts.warmup,
        seed=SEED if sampling.seed is None else sampling.seed,
        programs=tuple(programs.read(text) for text in peers.peer or ()),
        urls=tuple(peers.peer_url or ()),
    )


def _limits(settings: Config, apart: dict[str, Any], answer: AnswerFlags, *, full_length: bool) -> Limits:
    return Limits(
        sampling=replace(settle.sampling(settings, apart), seed=None),
        max_tokens=answer.max_tokens or MAX_TOKENS,
        stop=tuple(apart.get("stop") or ()),
        system=answer.system,
        lookup=settle.speculation(settings)["lookup"],
        full_length=full_length,
    )


def _temperatures(several: str | None, one: float | None) -> tuple[float, ...]:
    if several is not None and one is not None:
        raise UsageError("--temperatures and --temperature say the same thing.", "Give one of them.")
    if several is not None:
        return _listed("--temperatures", several, _temperature)
    return (0.0 if one is None else one,)


def _listed(flag: str, text: str, read_one: Callable[[str], T]) -> tuple[T, ...]:
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise UsageError(f"{flag} is {text!r}.", "Write the values with commas between them.")
    return tuple(dict.fromkeys(read_one(word) for word in words))


def _length(word: str) -> int | None:
    if word == "auto":
        return None
    if not word.isdecimal():
        raise UsageError(f"--draft-lengths has {word!r}.", "Write numbers or auto: --draft-lengths auto,2,4")
    return int(word)


def _temperature(word: str) -> float:
    try:
        return Sampling(temperature=float(word)).temperature
    except ValueError:
        raise UsageError(f"--temperatures has {word!r}.", "Write numbers: --temperatures 0,0.8") from None


def _verifier(word: str) -> str:
    lossy.verifier(word)  # raises for one that is not there
    return word
