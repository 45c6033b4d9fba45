"""What `localspec serve` adds to the time per token of `localspec run`, on the demo model.

    python scripts/bench_serve.py [--rounds N] [--tokens N] [--target FILE] [--threads N] [--json FILE]

Both engines are processes of their own, as in the two commands, and are asked in turns, so that a slow minute hits
both. Decoding is plain: what is compared is the way of a token, not the luck of a draft. A figure is the time from
the first token that arrives to the last one, divided by the tokens after the first; the result is the ratio of the
medians. The target is at most 5 % more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter

from localspec.catalog import find, locate
from localspec.chat.message import Message
from localspec.engine.apart import Apart
from localspec.engine.messages import Emitted, Event, Failed, Finished, Generate, Load
from localspec.engine.remote import Address, RemoteEngine
from localspec.errors import LocalspecError
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling

TARGET = 0.05
QUESTION = "Write a long story about a lighthouse keeper who finds a letter in a bottle."


@dataclass(frozen=True, slots=True)
class Result:
    run_ms: float  # per token, median
    serve_ms: float
    added: float  # 0.03: three in a hundred
    tokens_per_second: float
    rounds: int


class Watch:
    """Notes when tokens arrive. `per_token` is of the last answer."""

    def __init__(self) -> None:
        self._first: float | None = None
        self._begun = self._tokens = 0
        self.per_token = 0.0

    def __call__(self, event: Event) -> None:
        match event:
            case Emitted():
                if self._first is None:
                    self._first, self._begun = perf_counter(), len(event.pieces)
                self._tokens += len(event.pieces)
            case Finished() if self._first is not None:
                self.per_token = (perf_counter() - self._first) / max(1, self._tokens - self._begun)
                self._first, self._tokens = None, 0
            case Failed():
                raise LocalspecError(event.message, event.hint)


def ask(engine: Apart | RemoteEngine, watch: Watch, tokens: int) -> float:
    """Seconds per token of one answer. The question is read from the cache; nothing ends the answer early."""
    sampling = Sampling(temperature=0, logit_bias=((2, -1000.0), (0, -1000.0)))
    command = Generate(1, (Message("user", QUESTION),), sampling=sampling, method="off", max_tokens=tokens)
    engine.handle(command)
    return watch.per_token


def served(target: str, threads: int | None) -> tuple[subprocess.Popen[str], str]:
    """A server on a free port, once it is ready, and its address."""
    program = [sys.executable, "-c", "from localspec.cli import main; main()"]
    flags = ["--target", target, "--port", "0", *(["--threads", str(threads)] if threads else [])]
    process = subprocess.Popen([*program, "serve", *flags], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    address = ""
    for line in process.stderr:
        if "http://" in line:
            address = line.split()[-1]
        if "is ready" in line:
            return process, address
    raise LocalspecError("The server did not start.", "Try: localspec serve")


def measure(target: str, threads: int | None, rounds: int, tokens: int) -> Result:
    process, address = served(target, threads)
    here, there = Watch(), Watch()
    with tempfile.TemporaryDirectory() as folder:
        run = Apart(here, Path(folder, "log"))
        serve = RemoteEngine(Address.of(address), there)
        load = Load(ModelSpec(target, threads=threads))
        try:
            run.handle(load)
            serve.handle(load)
            ask(run, here, 8)
            ask(serve, there, 8)
            pairs = [(ask(run, here, tokens), ask(serve, there, tokens)) for _ in range(rounds)]
        finally:
            run.close()
            serve.close()
            process.terminate()
            process.communicate()
    ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
    return Result(1000 * ours, 1000 * theirs, theirs / ours - 1, 1 / ours, rounds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--target", help="a GGUF file (default: the demo model)")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    target = asked.target or str(locate(find("demo").target, "demo"))
    result = measure(target, asked.threads, asked.rounds, asked.tokens)
    print(f"run    {result.run_ms:.3f} ms per token ({result.tokens_per_second:.0f} tok/s)")
    print(f"serve  {result.serve_ms:.3f} ms per token")
    print(f"added  {100 * result.added:+.1f} %, target at most {100 * TARGET:.0f} %")
    if asked.json:
        asked.json.write_text(json.dumps(asdict(result), indent=2) + "\n", "utf-8")
    return 0 if result.added <= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
