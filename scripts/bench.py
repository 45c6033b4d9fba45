#!/usr/bin/env python3
"""The targets of the project, each with its figure and PASS or FALLS SHORT: `make bench`.

On the demo model re-quantised by llama.cpp (F16, Q8_0, Q4_0): localspec beside llama-server, where there is one, and
its own methods among themselves, by `localspec bench`; then what does not depend on the model. Wants a quiet machine.

Usage: python scripts/bench.py [--models Q8_0,...] [--tokens N] [--repeats N] [--report DIR] [--server PATH]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from itertools import product
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parent))

import bench_drafters
import bench_host
import bench_program
from build_peer import place
from numpy.random import default_rng
from quantise import quantise

from localspec import catalog, config
from localspec.bench import files, session, suite
from localspec.bench.programs import Program
from localspec.bench.report import Report, Row
from localspec.bench.session import Request
from localspec.bench.statistics import geometric_mean
from localspec.bench.subject import Limits
from localspec.bench.variants import Setup
from localspec.bench.watching import Watching, duration
from localspec.engine.messages import Load
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling

EQUAL, OWN = (
    Setup("off", "f16", "f16"),
    Setup("on", "q8_0", "q8_0"),
)  # llama-server's best settings, and our default
TEMPERATURES = (0.0, 0.8)
SINGLE = ("off", "lookup", "suffix")
# Of its n-gram types the one that, like ours here, knows the conversation alone. The others draw on what the server
# answered before, and each prompt is asked at two temperatures; bench_peer.py lets both sides remember.
NGRAM = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "8")
CATEGORIES = ("chat", "code writing", "code editing", "summary")


@dataclass(frozen=True, slots=True)
class Target:
    """A figure and what it should be at least, or at most."""

    what: str
    model: str
    figure: float | None
    target: float
    unit: str = "x"
    most: bool = False
    why: str = ""  # there is no figure

    def __str__(self) -> str:
        bound = f"{'at most' if self.most else 'at least'} {self.target:g}{self.unit}"
        if self.figure is None:
            return f"{self.what:52}{self.model:6}{'–':>9}  {bound:16} not measured: {self.why}"
        reached = self.figure <= self.target if self.most else self.figure >= self.target
        verdict = "PASS" if reached else "FALLS SHORT"
        return f"{self.what:52}{self.model:6}{self.figure:8.2f}{self.unit:2} {bound:16} {verdict}"


def main() -> None:
    options = asked()
    began, folder = monotonic(), config.cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    source = catalog.resolve(catalog.find(catalog.DEFAULT)).target
    for kind in options.models.split(","):
        model = quantise(source, folder / f"demo-{kind}.gguf", kind)
        report = measured(model, kind, options)
        if options.report:
            files.prepare(None, options.report / kind)
            files.save(report, None, options.report / kind)
        for target in (*beside(report, kind), *among(report, kind), bare(model, kind, options)):
            print(target, flush=True)
    for target in apart(source, options):
        print(target, flush=True)
    print(f"{duration(monotonic() - began)} in all")


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="F16,Q8_0,Q4_0")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument(
        "--report", type=Path, help="a folder for the reports of localspec bench, one for each model"
    )
    parser.add_argument("--server", type=Path, default=place(version("llama-cpp-python")))
    return parser.parse_args()


def measured(model: Path, kind: str, options: argparse.Namespace) -> Report:
    """All variants and servers on one model, in turns."""
    found = suite.read()
    server = options.server.is_file()
    request = Request(
        title=f"SmolLM2 135M Instruct {kind}",
        load=Load(ModelSpec(str(model), n_ctx=2048)),
        suite=found,
        prompts=suite.chosen(found, CATEGORIES, 1),
        limits=Limits(Sampling(), options.tokens, full_length=True),
        methods=(*SINGLE, "auto"),
        temperatures=TEMPERATURES,
        setups=(EQUAL, OWN),
        repeats=options.repeats,
        programs=(Program(str(options.server)), Program(str(options.server), NGRAM)) if server else (),
        wanted=lambda variant: variant.setup == OWN or variant.method != "auto",
    )
    return session.bench(request, Watching())


Cells = dict[tuple[str, int, float], float]  # (prompt, turn, temperature) -> tokens per second


def speeds(report: Report) -> dict[str, Cells]:
    """By `METHOD, equal` or `METHOD, own` settings, or the name of a server."""
    names = {row.label: _name(row) for row in report.rows}
    temperatures = {row.label: row.details["temperature"] for row in report.rows}
    sums: dict[str, dict[tuple[str, int, float], list[float]]] = {}
    for sample in report.outcome.samples:
        cell = (sample.task.prompt, sample.task.turn, temperatures[sample.variant])
        found = sums.setdefault(names[sample.variant], {}).setdefault(cell, [0.0, 0.0])
        found[0] += sample.reply.tokens
        found[1] += sample.reply.decode_s
    return {name: {cell: n / s for cell, (n, s) in cells.items()} for name, cells in sums.items()}


def _name(row: Row) -> str:
    if row.kind != "localspec":
        return row.label.partition(" T=")[0]
    return (
        f"{row.details['method']}, {'equal' if row.details['setup']['flash_attn'] == EQUAL.flash_attn else 'own'}"
    )


def ratios(ours: Cells, theirs: Cells) -> list[float]:
    return [ours[cell] / theirs[cell] for cell in ours.keys() & theirs.keys()]


def beside(report: Report, kind: str) -> Iterator[Target]:
    """Against llama-server on the same file, prompts and settings."""
    found = speeds(report)
    plain = found.get("llama-server", {})
    ngram = next((cells for name, cells in found.items() if name.startswith("llama-server ")), {})
    why = "it gave no answer" if plain else "python scripts/build_peer.py builds llama-server"
    for what, ours, theirs, target in (
        ("off against llama-server, equal settings", "off, equal", plain, 1.0),
        ("off with our settings against llama-server", "off, own", plain, 1.0),
        ("lookup against its ngram-simple", "lookup, equal", ngram, 1.15),
        ("suffix against its ngram-simple", "suffix, equal", ngram, 1.15),
    ):
        yield Target(what, kind, geometric_mean(ratios(found.get(ours, {}), theirs)), target, why=why)


def among(report: Report, kind: str) -> Iterator[Target]:
    """Our own methods, with our settings."""
    found = speeds(report)
    single = [found[f"{method}, own"] for method in SINGLE]
    auto = found["auto, own"]
    best = {cell: max(cells[cell] for cells in single if cell in cells) for cell in auto}
    worst = min(ratios(auto, found["off, own"]), default=None)
    yield Target("auto against plain decoding, the worst prompt", kind, worst, 0.98)
    yield Target("auto against the best single method per prompt", kind, geometric_mean(ratios(auto, best)), 0.95)


def bare(model: Path, kind: str, options: argparse.Namespace) -> Target:
    prompts = suite.chosen(suite.read(), CATEGORIES, 1)
    figure = bench_program.against_bare_passes(model, prompts, options.tokens, 2)
    return Target("off against bare llama_decode", kind, figure, 0.98)


def apart(demo: Path, options: argparse.Namespace) -> Iterator[Target]:
    """What does not depend on the quantisation, on the demo model as it comes where a model is needed."""
    yield Target("draft, T 0.7: accepted against sample-and-compare", "", _acceptance(options), 1.15)
    blocks = [bench_host.rows(152_064, default_rng(seed)) for seed in range(bench_host.BLOCKS)]
    for setting, limit in (("T 0.7, top-k 40, top-p 0.95", 1.0), ("greedy", 0.3)):
        worst = max(
            bench_host.measure(blocks, setting, verifier, kind, 30).milliseconds
            for verifier, kind in product(bench_host.VERIFIERS, ("certain", "drawn"))
        )
        yield Target(f"host time of a round, 152k tokens, {setting[:12]}", "", worst, limit, "ms", most=True)
    with redirect_stdout(StringIO()):
        drafted = bench_drafters.drafting(options)
    for name, row in drafted.items():
        spent = max(value for key, value in row.items() if key.startswith("us_at_"))
        yield Target(f"drafting with {name}, up to 32k tokens", "", spent, 50, "us", most=True)
    yield Target(
        "decode speed on the screen against in-process", "", bench_program.on_the_screen(demo, 96, 4), 0.97
    )
    yield Target("localspec --help against importing typer", "", bench_program.start(), 1.5, most=True)
    grown = bench_program.growth(demo)
    yield Target("growth over 80 turns", "", grown, 8.0, "MB", most=True, why="no /proc here")


def _acceptance(options: argparse.Namespace) -> float:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "acceptance.json")
        words = ("--temperature", "0.7", "--tokens", str(options.tokens), "--json", str(file))
        script = Path(__file__).with_name("bench_acceptance.py")
        subprocess.run([sys.executable, script, *words], check=True, stdout=subprocess.DEVNULL)
        return float(json.loads(file.read_text())["gain"])


if __name__ == "__main__":
    main()
