#!/usr/bin/env python3
"""What `auto` gains over plain decoding when the layers are on two workers, as the network gets slower.

    python scripts/bench_rpc.py [--delays 0,2,10] [--tokens N] [--repeats N] [--target FILE] [--threads N] [--json FILE]

Two `localspec worker` on this machine, each behind scripts/slow_link.py, which adds a round trip of so many
milliseconds; all layers of the demo model on them. Plain and `auto` in turns, greedy and with end tokens banned. At
each delay the costs of a pass are measured anew, as they are when a model is loaded over workers; each answer begins
with nothing known of the text. The settings are those under which the width of a pass changes nothing, so the answers
are compared with those of this machine alone as well. Targets: `auto` at least 0.98 times plain with no delay, and the
more the slower the network is. Wants a build with RPC, a quiet machine, and two to three minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import geometric_mean, median
from time import monotonic
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
# Real workers have a machine each: these must not wait for work on each other's cores.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from bench_drafters import PROMPTS, answer, methods, model_path

from localspec.errors import LocalspecError
from localspec.llama import workers
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.calibration import calibrate
from localspec.spec.stats import Stats, fold
from localspec.spec.types import Token

LEAST = 0.98  # of plain decoding, with no delay
ASKED = ("copy", "edit code", "summary", "essay")  # the first two and the third in part have what to copy
INVARIANT = {"flash_attn": "on", "cache_type_k": "q8_0", "cache_type_v": "q8_0"}
PATIENCE_S = 30.0
Key = tuple[float, str, str]  # delay in milliseconds, prompt, method


@dataclass(frozen=True, slots=True)
class Sample:
    stats: Stats
    same: bool  # the text of this machine alone


class Network:
    """Ports of workers behind a link whose delay can be set."""

    def __init__(self, ports: Sequence[int]) -> None:
        script = Path(__file__).with_name("slow_link.py")
        words = [sys.executable, str(script), *map(str, ports)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self.places = tuple(f"127.0.0.1:{port}" for port in self._output.readline().split())

    def delay(self, milliseconds: float) -> None:
        """Returns once it holds."""
        print(milliseconds, file=self._input, flush=True)
        self._output.readline()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def working(threads: int | None) -> Iterator[int]:
    """A worker on a free port, once it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    program = [sys.executable, "-c", "from localspec.cli import main; main()", "worker", "--port", str(port)]
    flags = ["--threads", str(threads)] if threads else []
    process = subprocess.Popen([*program, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = monotonic() + PATIENCE_S
        while workers.look(f"127.0.0.1:{port}") is not None:
            if process.poll() is not None or monotonic() > deadline:
                raise LocalspecError("A worker did not start.", "Try: localspec worker")
        yield port
    finally:
        process.kill()
        process.communicate()


def loaded(options: argparse.Namespace, gpu_layers: int) -> LlamaModel:
    spec = ModelSpec(model_path(options), n_ctx=2048, threads=options.threads, gpu_layers=gpu_layers, **INVARIANT)
    return LlamaModel.load(spec)


def ask(
    target: LlamaModel, method: str, prompt: str, known: dict[int, float], options: argparse.Namespace
) -> tuple[Stats, list[Token]]:
    """Nothing of the prompt stands in the cache, so that every answer reads it whole."""
    target.rewind(0)
    drafter, length = next(
        (drafter, length) for name, drafter, length in methods(target, None, known) if name == method
    )
    _, rounds = answer(target, drafter, length, PROMPTS[prompt], 1, options)
    return fold(rounds), [token for round in rounds for token in round.emitted]


def alone(options: argparse.Namespace) -> dict[str, list[Token]]:
    """The answers without workers. Before these are joined: native code can't forget them again."""
    target = loaded(options, 0)
    try:
        return {prompt: ask(target, "off", prompt, {}, options)[1] for prompt in ASKED}
    finally:
        target.close()


def measure(options: argparse.Namespace) -> tuple[dict[Key, list[Sample]], dict[float, dict[int, float]]]:
    """The samples, and what wide passes cost at each delay in plain steps."""
    if not workers.is_built_in():
        raise workers.NoWorkers
    wanted, samples = alone(options), dict[Key, list[Sample]]()
    with ExitStack() as stack:
        ports = [stack.enter_context(working(options.threads)) for _ in range(2)]
        network = Network(ports)
        stack.callback(network.close)
        if notes := workers.join(network.places):
            raise LocalspecError(notes[0])
        target = loaded(options, -1)
        stack.callback(target.close)
        costs = {}
        for repeat in range(options.repeats):
            for delay in options.delays:
                network.delay(delay)
                if repeat == 0:
                    costs[delay] = calibrate(target)
                for prompt in ASKED:
                    for method in ("off", "auto"):
                        stats, text = ask(target, method, prompt, costs[delay], options)
                        samples.setdefault((delay, prompt, method), []).append(
                            Sample(stats, text == wanted[prompt])
                        )
    return samples, costs


def rows(samples: dict[Key, list[Sample]], costs: dict[float, dict[int, float]]) -> list[dict[str, Any]]:
    """One for each delay. Speeds are medians over the repeats; a gain is a geometric mean over the prompts."""
    return [_row(delay, samples, costs[delay]) for delay in costs]


def _row(delay: float, samples: dict[Key, list[Sample]], costs: dict[int, float]) -> dict[str, Any]:
    def speed(prompt: str, method: str) -> float:
        return median(sample.stats.tokens_per_second or 0.0 for sample in samples[delay, prompt, method])

    speeds = {prompt: {method: speed(prompt, method) for method in ("off", "auto")} for prompt in ASKED}
    gains = {prompt: found["auto"] / found["off"] for prompt, found in speeds.items()}
    here = [sample for (at, _, _), found in samples.items() if at == delay for sample in found]
    drafting = [s for prompt in ASKED for s in samples[delay, prompt, "auto"]]
    stats = sum((sample.stats for sample in drafting), Stats())
    return {
        "delay_ms": delay,
        "off": geometric_mean(found["off"] for found in speeds.values()),
        "auto": geometric_mean(found["auto"] for found in speeds.values()),
        "gain": geometric_mean(gains.values()),
        "worst": min(gains.values()),
        "drafted": stats.drafts / stats.rounds,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "same_text": sum(sample.same for sample in here) / len(here),
        "gains": gains,
        "costs": costs,
    }


def verdicts(found: Sequence[dict[str, Any]]) -> dict[str, bool]:
    """The targets, and whether each is reached. `found` is in the order of the delays."""
    gains = [row["gain"] for row in found]
    return {
        f"auto against plain at {found[0]['delay_ms']:g} ms: {gains[0]:.2f}x (target {LEAST}x)": gains[0] >= LEAST,
        "the gain grows with the delay": all(one < other for one, other in pairwise(gains)),
        "the text of this machine alone": all(row["same_text"] == 1 for row in found),
    }


def table(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield f"{'added':>9}{'off':>9}{'auto':>9}{'gain':>8}{'worst':>8}{'drafted':>9}{'a round':>9}{'2 rows':>8}{'16':>6}"
    for row in found:
        costs = "".join(f"{row['costs'].get(n, float('nan')):{width}.2f}" for n, width in ((2, 8), (16, 6)))
        yield (
            f"{row['delay_ms']:6g} ms{row['off']:9.1f}{row['auto']:9.1f}{row['gain']:7.2f}x{row['worst']:7.2f}x"
            f"{100 * row['drafted']:7.0f} %{row['mean_acceptance_length']:9.2f}{costs}"
        )
    yield "off and auto in tokens per second; drafted: rounds of auto with a draft; a round: its tokens per round;"
    yield "2 rows and 16: what such a pass costs, in plain steps"


def asked() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--delays",
        type=lambda text: sorted({float(part) for part in text.split(",")}),
        default=[0.0, 2.0, 10.0],
        help="added round trips in milliseconds (default: 0,2,10)",
    )
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--target", dest="model", help="a GGUF file (default: the demo model)")
    parser.add_argument("--threads", type=int, help="of each worker")
    parser.add_argument("--json", type=Path)
    parser.set_defaults(temperature=0.0)
    return parser.parse_args()


def main() -> int:
    options = asked()
    try:
        found = rows(*measure(options))
    except LocalspecError as error:
        raise SystemExit(f"{error.message} {error.hint}") from None
    print("\n".join(table(found)))
    reached = verdicts(found)
    for what, is_reached in reached.items():
        print(f"{what}: {'PASS' if is_reached else 'FALLS SHORT'}")
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name not in ("json", "model")}
        options.json.write_text(json.dumps({"settings": settings, "rows": found}, indent=2) + "\n", "utf-8")
    return 0 if all(reached.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
