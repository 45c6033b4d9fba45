"""What a round costs beside the models: sampling, the exact rule and the loop itself, on synthetic logits.

    python scripts/bench_host.py [--repetitions N] [--json FILE]

No model is needed. Each figure is the fastest of many passes over the same rounds, in milliseconds per round, since
other work on the machine can only add time. Limits are those for a draft of 4 tokens.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.length import Fixed
from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Logits, Tokens
from localspec.spec.verify import VERIFIERS

K = 4
CONTEXT = 1024
BLOCKS = 6
SLOWER_AT_262K = 1.8
VOCABULARIES = {152_064: 1.0, 262_144: SLOWER_AT_262K}
USUAL = Sampling(0.7, 40, 0.95, 0)
SETTINGS: dict[str, tuple[Sampling, float]] = {
    "T 0.7, top-k 40, top-p 0.95": (USUAL, 1.0),
    "T 1, no truncation": (Sampling(1, 0, 1, 0), 3.0),
    "greedy": (Sampling(0), 0.3),
    "the first, repeat penalty 1.1": (Sampling(0.7, 40, 0.95, 0, repeat_penalty=1.1, penalty_last_n=256), 1.3),
}


@dataclass(frozen=True, slots=True)
class Figure:
    vocabulary: int
    setting: str
    verifier: str
    draft: str  # certain, or drawn from a distribution
    milliseconds: float
    limit: float
    accepted: float  # draft tokens per round

    @property
    def reached(self) -> bool:
        return self.milliseconds <= self.limit


@dataclass
class Synthetic:
    """Target and drafter in one: hands out prepared rows and drafts in turn, at no cost."""

    blocks: list[Logits]
    drafts: list[Draft]
    n_vocab: int
    name: str = "synthetic"
    n_ctx: int = 1 << 30
    n_batch: int = 64
    max_rows: int = 64
    cached: Tokens = ()
    turn: int = field(default=0)

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self.turn = (self.turn + 1) % len(self.drafts)
        return self.drafts[self.turn]

    def decode(self, tokens: Tokens, *, rows: int) -> Logits:
        return self.blocks[self.turn]

    def rewind(self, length: int) -> None:
        pass

    def close(self) -> None:
        pass


def rows(n_vocab: int, rng: Generator) -> Logits:
    """k + 1 rows as a language model gives them: a broad floor and a few dozen tokens that stand out."""
    block = 2 * rng.standard_normal((K + 1, n_vocab), np.float32)
    for row in block:
        row[rng.choice(n_vocab, 40, replace=False)] += np.linspace(16, 8, 40, dtype=np.float32)
    return block


def drafted(block: Logits, history: Tokens, sampling: Sampling, kind: str, rng: Generator) -> Draft:
    """Drawn from a rough copy of the target, or its most likely tokens."""
    if kind == "certain":
        return Draft(tuple(int(row.argmax()) for row in block[:K]), source="synthetic")
    rough = block[:K] + 0.5 * rng.standard_normal(block[:K].shape, np.float32)
    probs = tuple(distribution(row, history, sampling) for row in rough)
    return Draft(tuple(q.sample(rng) for q in probs), probs, "synthetic")


def measure(blocks: list[Logits], setting: str, verifier: str, kind: str, repetitions: int) -> Figure:
    sampling, limit = SETTINGS[setting]
    n_vocab, rng = blocks[0].shape[1], default_rng(1)
    history = rng.integers(0, n_vocab, CONTEXT).tolist()
    drafts = [drafted(block, history, sampling, kind, rng) for block in blocks]
    model = Synthetic(blocks, drafts, n_vocab)
    decoder = SpeculativeDecoder(model, model, Fixed(K), VERIFIERS[verifier])
    rounds = decoder.generate(history, sampling, 0, lambda token: None)
    fastest, accepted = float("inf"), 0
    for _ in range(repetitions):
        begin = perf_counter()
        accepted += sum(next(rounds).accepted for _ in blocks)
        fastest = min(fastest, perf_counter() - begin)
    return Figure(
        n_vocab, setting, verifier, kind,
        milliseconds=1000 * fastest / len(blocks),
        limit=limit * VOCABULARIES[n_vocab],
        accepted=accepted / len(blocks) / repetitions,
    )  # fmt: skip


def figures(repetitions: int) -> Iterator[Figure]:
    for n_vocab in VOCABULARIES:
        blocks = [rows(n_vocab, default_rng(seed)) for seed in range(BLOCKS)]
        for setting, verifier, kind in product(SETTINGS, VERIFIERS, ("certain", "drawn")):
            yield measure(blocks, setting, verifier, kind, repetitions)


def main() -> None:
    parser = argparse.ArgumentParser(description="Host time of a round beside the models, on synthetic logits.")
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    print(f"{'vocabulary':>10}  {'setting':30} {'verifier':8} {'draft':8} {'accepted':>8} {'ms':>7} {'limit':>6}")
    found: list[dict[str, Any]] = []
    for figure in figures(options.repetitions):
        found.append({**asdict(figure), "reached": figure.reached})
        print(
            f"{figure.vocabulary:10,}  {figure.setting:30} {figure.verifier:8} {figure.draft:8} "
            f"{figure.accepted:8.2f} {figure.milliseconds:7.3f} {figure.limit:6.2f}  "
            f"{'PASS' if figure.reached else 'FALLS SHORT'}",
            flush=True,
        )
    if options.json:
        options.json.write_text(
            json.dumps({"schema": "localspec.bench_host/1", "k": K, "figures": found}, indent=2)
        )


if __name__ == "__main__":
    main()
