"""What the doctor prints: sections of facts, then what is missing. Fits 80 columns; commands are never broken."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from localspec.chat.text import one_line
from localspec.doctor.examine import Gap, gaps
from localspec.doctor.facts import Build, Device, Facts, Hub, Terminal, Worker
from localspec.methods import METHODS

SCHEMA = "localspec.doctor/1"
WIDTH = 80
_LABEL = 16
_REGISTRIES = {"MTL": "Metal", "BLAS": "BLAS", "ROCm": "ROCm"}

Row = tuple[str, str]
_WHY_CPU = (
    "on a processor as fast as any other choice up to about a thousand tokens, half the memory, and the logits don't "
    "depend on how many rows a pass has"
)
_WHY_GPU = "llama.cpp uses flash attention where the device has it; f16 is what GPUs read fastest"


def document(facts: Facts) -> dict[str, Any]:
    """The JSON contract of `doctor --json`: all facts, and the gaps."""
    return {
        "schema": SCHEMA,
        **asdict(facts),
        "works": list(drafters(facts)),
        "gaps": [asdict(gap) for gap in gaps(facts)],
    }


def lines(facts: Facts) -> Iterator[str]:
    for title, rows in sections(facts):
        yield title
        for label, text in rows:
            yield from _row(label, text)
        yield ""
    found = gaps(facts)
    yield f"{len(found)} thing{'s' * (len(found) != 1)} to mend" if found else "Nothing is missing."
    for gap in found:
        yield from _gap(gap)


def sections(facts: Facts) -> Iterator[tuple[str, list[Row]]]:
    yield "Versions", list(_versions(facts))
    if facts.build is not None:
        yield "llama.cpp", list(_build(facts, facts.build))
        yield "Workers", list(_workers(facts, facts.build))
        yield "Drafters", list(_drafters(facts, facts.build))
        yield "Numerics", list(_numerics(facts.build))
    yield "Hub", list(_hub(facts.hub))
    yield "Folders", [(p.name, f"{p.path} ({p.free / 1e9:.0f} GB free)") for p in facts.places]
    yield "Terminal", [("", _terminal(facts.terminal))]


def drafters(facts: Facts) -> tuple[str, ...]:
    """The methods that this build can run, given a model that they fit."""
    missing = facts.build.missing if facts.build else {}
    own = () if facts.build is None else METHODS[2:]
    return (*(name for name in own if not missing.get(name)), *(facts.drafters if own else ()))


def _versions(facts: Facts) -> Iterator[Row]:
    for name, version in facts.packages.items():
        yield name, version or "not installed"
    if facts.build is not None:
        yield "llama.cpp", facts.build.llama_cpp
    yield "Python", facts.python
    yield "System", f"{facts.os} ({facts.machine})"


def _build(facts: Facts, build: Build) -> Iterator[Row]:
    yield "Backends", ", ".join(_REGISTRIES.get(name, name) for name in build.backends)
    yield "Processor", ", ".join(build.features)
    for device in build.devices:
        yield device.name, _device(device)
    for card in facts.cards:
        if not build.gpus and (card.name or card.vendor != "Intel"):
            yield "Not used", f"{card.name or card.vendor + ' graphics card'}, see below"
    more = f" ({build.cpus} logical processors: a second thread on a core only slows)"
    cores = f"{build.cores}, one for each physical core that this process may use"
    yield "Threads", cores + more * (build.cpus > build.cores)
    yield (
        "Attention",
        f"flash attention {build.flash_attn}, cache {build.cache_type}: " + (_WHY_GPU if build.gpus else _WHY_CPU),
    )


def _device(device: Device) -> str:
    kind = {"cpu": "processor", "gpu": "GPU", "igpu": "integrated GPU"}.get(device.kind, device.kind)
    return f"{device.description} ({kind}, {_memory(device)})"


def _memory(device: Device) -> str:
    return f"{device.free / 1e9:.1f} of {device.total / 1e9:.1f} GB free"


def _workers(facts: Facts, build: Build) -> Iterator[Row]:
    can = "this build can use workers (--rpc) and be one (localspec worker)"
    yield "", can if build.rpc else "this build has no RPC backend: it can neither use workers nor be one"
    for worker in facts.workers:
        yield worker.place, worker.trouble or _offer(worker)


def _offer(worker: Worker) -> str:
    trip = "" if worker.round_trip_s is None else f" in {1000 * worker.round_trip_s:.1f} ms"
    count = len(worker.devices)
    offered = f", {count} device{'s' * (count != 1)}: " + ", ".join(map(_memory, worker.devices)) if count else ""
    return f"answers{trip}{offered}"


def _drafters(facts: Facts, build: Build) -> Iterator[Row]:
    yield "Work", ", ".join(drafters(facts))
    yield "", "what each needs of a model: localspec inspect FILE"
    for reason in filter(None, build.missing.values()):
        yield "Off", reason
    if not any(build.missing.values()):
        yield "Hidden states", "all of llama.cpp's functions for mtp, eagle3 and dflash are there"
    for name, origin in facts.drafters.items():
        yield "Installed", f"{name} ({origin})"


def _numerics(build: Build) -> Iterator[Row]:
    shown: set[tuple[str, str]] = set()
    for each in build.measured:
        if (each.model, each.settings) not in shown:
            shown.add((each.model, each.settings))
            yield "", f"{each.model} ({each.settings}): {each.result}"
    if not shown:
        yield "", "nothing measured yet: each model is, when it is first loaded"


def _hub(hub: Hub) -> Iterator[Row]:
    state = {True: "answers", False: f"can't be reached: {hub.trouble}", None: "was not asked"}[hub.reachable]
    yield "Endpoint", f"{hub.endpoint}: " + ("not asked, HF_HUB_OFFLINE is set" if hub.offline else state)
    origin = "stored on this machine" if hub.token == "stored" else f"from {hub.token}"
    none = "none; only gated and private models need one (HF_TOKEN)"
    yield "Token", none if hub.token == "none" else origin


def _terminal(terminal: Terminal) -> str:
    if not terminal.tty:
        return "the output is no terminal"
    colours = {0: "no colours", 1 << 24: "all colours"}.get(terminal.colours, f"{terminal.colours} colours")
    return f"{terminal.term or 'TERM is not set'}, {terminal.columns} by {terminal.rows}, {colours}"


def _row(label: str, text: str) -> Iterator[str]:
    begin = f"  {one_line(label, 40):<{_LABEL}}  " if label else "  "
    indent = " " * (2 + _LABEL + 2) if label else "    "
    yield from textwrap.wrap(
        one_line(text, 500),
        WIDTH,
        initial_indent=begin,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [begin.rstrip()]


def _gap(gap: Gap) -> Iterator[str]:
    yield ""
    yield from textwrap.wrap(one_line(gap.what, 500), WIDTH, initial_indent="* ", subsequent_indent="  ")
    for text in filter(None, (gap.consequence, gap.first)):
        yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield from (f"    {line}" for line in gap.command.splitlines())
