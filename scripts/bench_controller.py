#!/usr/bin/env python3
"""What the automatic choice is worth, without a clock, so on any machine. Two parts:

  simulation  regret against an oracle, and loss against plain decoding, on simulated machines and texts
  replay      the real answers of a model, replayed with lookup and suffix under tables of costs

Usage: python scripts/bench_controller.py PART [--model FILE] [--tokens N] [--repeats N] [--json FILE]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the simulation, which belongs to the tests

from bench_drafters import PROMPTS, Row, answer, main, methods, model_path

from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec import decoder as decoding
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Logits, Tokens
from tests.spec import simulation as sim


def simulation(options: argparse.Namespace) -> Row:
    def one(name: str, text: sim.Text) -> sim.Source:
        return sim.Source(name, text, 0.1)

    texts: dict[str, tuple[sim.Source, ...]] = {
        "flat 0.95": (one("draft", sim.flat(0.95)),),
        "flat 0.8": (one("draft", sim.flat(0.8)),),
        "flat 0.5": (one("draft", sim.flat(0.5)),),
        "never right": (one("draft", sim.flat(0.02)),),
        "steep": (one("draft", sim.steep(0.9, 0.7)),),
        "two models": (one("draft", sim.flat(0.8)), one("other", sim.flat(0.6))),
        "drifting down": (one("draft", sim.drifting(0.9, 0.3, 1000)),),
        "drifting up": (one("draft", sim.drifting(0.3, 0.9, 1000)),),
        **{
            f"alternating, {period}": (one("draft", sim.alternating(sim.flat(0.95), sim.flat(0.3), period)),)
            for period in (100, 200, 300)
        },
    }
    rows: Row = {}
    for machine, table in (("processor", sim.CPU), ("card", sim.GPU)):
        for text, sources in texts.items():
            runs = [
                sim.simulate(sources, sim.Machine(table), 1500, seed=seed) for seed in range(options.repeats * 4)
            ]
            row = {
                "regret": sim.mean(run.regret() for run in runs),
                "worst": max(run.regret() for run in runs),
                "loss_150": sim.mean(run.loss(150) for run in runs),
                "loss_1500": sim.mean(run.loss(1500) for run in runs),
            }
            rows[f"{machine}, {text}"] = row
            figures = "  ".join(f"{name} {100 * value:6.1f} %" for name, value in row.items())
            print(f"{machine:10} {text:18} {figures}")
    return rows


class Replay:
    """A target that says what was said before, and takes what the table of costs says."""

    n_ctx, n_batch, max_rows, seconds = 4096, 4096, 64, 0.0

    def __init__(self, prompt: list[int], answer: list[int], table: Sequence[float], seed: int) -> None:
        ids = {token: i for i, token in enumerate(sorted({*prompt, *answer}))}
        self.n_vocab = len(ids) + 1
        self.text = [ids[token] for token in (*prompt, *answer)] + [len(ids)] * self.max_rows
        self.prompt = self.text[: len(prompt)]
        self.steps = 0.0
        self._table, self._rng, self._cache = table, np.random.default_rng(seed), list[int]()

    @property
    def cached(self) -> Tokens:
        return np.array(self._cache, np.int32)

    def decode(self, tokens: Tokens, *, rows: int) -> Logits:
        self._cache += [int(token) for token in tokens]
        logits = np.zeros((rows, self.n_vocab), np.float32)
        for i in range(rows):
            logits[i, self.text[len(self._cache) - rows + i + 1]] = 9.0
        if rows:
            cost = self._table[rows - 1]
            self.steps += cost
            Replay.seconds += 0.01 * cost * float(np.exp(0.05 * self._rng.normal()))
        return logits

    def rewind(self, length: int) -> None:
        del self._cache[length:]


def replay(options: argparse.Namespace) -> Row:
    """A certain proposal is accepted where it is what the target says, so one run of the model is enough."""
    target = LlamaModel.load(ModelSpec(model_path(options), n_ctx=2048, threads=options.threads))
    answers = {}
    for name, prompt in PROMPTS.items():
        ids, rounds = answer(target, Off(), Fixed(0), prompt, 1, options, stop=True)
        answers[name] = (list(map(int, ids)), [token for round in rounds for token in round.emitted])
    decoding.perf_counter = lambda: Replay.seconds  # type: ignore[attr-defined]
    rows: Row = {}
    for machine, table in (("processor", sim.CPU), ("card", sim.GPU)):
        for name, (ids, said) in answers.items():
            row: Row = {"tokens": len(said)}
            for method in ("lookup", "suffix", "auto"):
                steps = []
                for seed in range(options.repeats):
                    model = Replay(ids, said, table, seed)
                    drafter = next(found for kind, found, _ in methods(target, None) if kind == method)
                    decoder = SpeculativeDecoder(model, drafter, drafter)  # type: ignore[arg-type]
                    decoder.prefill(model.prompt, lambda done, total: None, lambda: False)
                    model.steps = 0.0
                    list(decoder.generate(model.prompt, Sampling(temperature=0), 0, lambda token: None, len(said)))
                    steps.append(model.steps)
                row[method] = len(said) / median(steps)
            rows[f"{machine}, {name}"] = row
            figures = "  ".join(f"{key} {row[key]:.2f}x" for key in ("lookup", "suffix", "auto"))
            print(f"{machine:10} {name:12} {len(said):4} tokens  {figures}")
        found = [row for key, row in rows.items() if key.startswith(machine)]
        best = geometric_mean(row["auto"] / max(1, row["lookup"], row["suffix"]) for row in found)
        print(
            f"{machine}: auto against plain, geometric mean {geometric_mean(r['auto'] for r in found):.2f}x, worst "
            f"{min(row['auto'] for row in found):.2f}x; against the best single method {best:.2f}x"
        )
    return rows


if __name__ == "__main__":
    main(__doc__, {"simulation": simulation, "replay": replay})
