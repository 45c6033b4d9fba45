#!/usr/bin/env python3
"""What drafters and the automatic choice cost and gain. Four parts, each with its targets:

  drafting    microseconds per round and bytes per token of lookup and suffix, as the context grows to 32k tokens
  controller  regret against an oracle, and loss against plain decoding, on simulated machines and texts (no clock)
  replay      the real answers of a model, replayed with lookup and suffix under tables of costs (no clock)
  speed       tokens per second of every method and of auto on a real model, interleaved, over a dozen prompts

Usage: python scripts/bench_drafters.py PART [--model FILE] [--draft FILE] [--tokens N] [--repeats N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))  # for the simulation, which belongs to the tests

from localspec import catalog
from localspec.chat.message import Message
from localspec.chat.prompt import encode
from localspec.chat.template import ChatTemplate
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.calibration import calibrate
from localspec.spec.controller import Controller
from localspec.spec.costs import Costs
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.auto import Auto
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.drafters.off import Off
from localspec.spec.drafters.suffix import Suffix
from localspec.spec.length import Fixed, Length
from localspec.spec.settings import Sampling
from localspec.spec.stats import fold
from localspec.spec.types import Drafter, Finish, Logits, Round, Tokens

PASSAGE = (
    "The lighthouse at Carrow Point was built in 1871 from granite that was cut on the mainland. Its lamp burned oil "
    "until 1926, when a generator was brought over by boat. Three keepers lived there at a time, each for six weeks, "
    "and the log that they kept has survived: weather, passing ships, and the price of potatoes. "
)
CODE = """def total(items):
    result = 0
    for item in items:
        result += item.price * item.count
    return result
"""
PROMPTS = {
    "copy": f"Repeat this text word for word:\n\n{PASSAGE}",
    "copy code": f"Repeat this code and nothing else:\n\n```python\n{CODE}```",
    "edit code": f"Rename `result` to `amount` in this code and print all of it:\n\n```python\n{CODE}```",
    "summary": f"Summarise this text in two sentences:\n\n{PASSAGE * 2}",
    "question": f"{PASSAGE}\n\nWhen was the lighthouse built, and from what?",
    "translation": f"Translate into French:\n\n{PASSAGE}",
    "list": "List the months of the year, and after each its number of days.",
    "table": "Write a Markdown table of ten countries with capital and continent.",
    "code": "Write a Python function that merges two sorted lists.",
    "story": "Write a short story about a clock maker who hates the sound of ticking.",
    "essay": "Explain why the sky is blue.",
    "poem": "Write a poem about rain on a tin roof.",
}
Row = dict[str, Any]


def drafting(options: argparse.Namespace) -> Row:
    rng, rows = np.random.default_rng(0), {}
    text = np.concatenate(
        [piece for _ in range(512) for piece in (rng.integers(0, 5000, 48), np.tile(rng.integers(0, 50, 8), 2))]
    ).astype(np.int32)
    for make in (Lookup, Suffix):
        tracemalloc.start()
        drafter = make()
        drafter.draft(text, 8, Sampling(), rng)
        size = tracemalloc.get_traced_memory()[0] / text.size
        tracemalloc.stop()
        row: Row = {"bytes_per_token": size}
        for length in (1024, 8192, text.size):
            drafter, times = make(), []
            drafter.draft(text[: length - 400], 8, Sampling(), rng)
            for end in range(length - 400, length, 2):
                started = perf_counter()
                drafter.draft(text[:end], 8, Sampling(), rng)
                times.append(1e6 * (perf_counter() - started))
            row[f"us_at_{length}"] = median(times)
        rows[drafter.name] = row
        verdict = "PASS" if row[f"us_at_{text.size}"] <= 50 and size <= 400 else "FALLS SHORT"
        figures = "  ".join(f"{name} {value:.0f}" for name, value in row.items())
        print(f"{drafter.name:8} {figures}  (at most 50 us and 400 bytes)  {verdict}")
    return rows


def controller(options: argparse.Namespace) -> Row:
    from tests.spec import simulation as sim

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
    from localspec.spec import decoder as decoding
    from tests.spec import simulation as sim

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


def speed(options: argparse.Namespace) -> Row:
    target = LlamaModel.load(ModelSpec(model_path(options), n_ctx=2048, threads=options.threads))
    draft = None
    if options.draft:
        draft = LlamaModel.load(ModelSpec(options.draft, n_ctx=2048, threads=options.threads), role="draft")
    known = calibrate(target)  # as the engine does when a model is first loaded
    rows: Row = {"costs of a pass in plain steps": known}
    for name, prompt in PROMPTS.items():
        rates: dict[str, list[float]] = {}
        for repeat in range(options.repeats):
            for method, drafter, length in methods(target, draft, known):
                rates.setdefault(method, []).append(rate(target, drafter, length, prompt, repeat, options))
        rows[name] = {method: median(found) for method, found in rates.items()}
        print(
            f"{name:12} " + "  ".join(f"{method} {found:6.1f}" for method, found in rows[name].items()), flush=True
        )
    plain = {name: rows[name]["auto"] / rows[name]["off"] for name in PROMPTS}
    best = [rows[name]["auto"] / max(v for m, v in rows[name].items() if m != "auto") for name in PROMPTS]
    worst = min(plain, key=plain.__getitem__)
    print(f"auto against plain, worst: {worst} {plain[worst]:.2f}x (target 0.98x)")
    print(f"auto against plain, geometric mean: {geometric_mean(plain.values()):.2f}x")
    print(f"auto against the best single method, geometric mean: {geometric_mean(best):.2f}x (target 0.95x)")
    return rows


def methods(
    target: LlamaModel, draft: LlamaModel | None, known: dict[int, float] | None = None
) -> Iterator[tuple[str, Drafter, Length]]:
    """Each knows nothing of the text when an answer begins, and of the machine what was measured before."""

    def informed() -> Controller:
        costs = Costs()
        costs.begin_with(known or {})
        return Controller(costs)

    yield "off", Off(), Fixed(0)
    makers: dict[str, Callable[[], Drafter]] = {"lookup": Lookup, "suffix": Suffix}
    if draft is not None:
        makers["draft"] = lambda: ModelDrafter(draft, target.n_vocab, target.vocab.eog)
    for name, make in makers.items():
        alone = Auto([make()], informed(), name=name)
        yield name, alone, alone
    auto = Auto([make() for make in makers.values()], informed())
    yield "auto", auto, auto


def rate(
    target: LlamaModel, drafter: Drafter, length: Length, prompt: str, seed: int, options: argparse.Namespace
) -> float:
    _, rounds = answer(target, drafter, length, prompt, seed, options)
    return fold(rounds).tokens_per_second or 0.0


def answer(
    target: LlamaModel,
    drafter: Drafter,
    length: Length,
    prompt: str,
    seed: int,
    options: argparse.Namespace,
    stop: bool = False,
) -> tuple[Tokens, list[Round]]:
    vocab, messages = target.vocab, (Message("user", prompt),)
    rendered = ChatTemplate(vocab.chat_template, bos=vocab.bos_text, eos=vocab.eos_text).render(messages)
    ids = encode(rendered, messages, vocab)
    decoder = SpeculativeDecoder(target, drafter, length)
    decoder.prefill(ids, lambda done, total: None, lambda: False)
    sampling = Sampling(temperature=options.temperature, banned=() if stop else tuple(vocab.eog))

    def ending(token: int) -> Finish | None:
        return Finish.STOP if token in vocab.eog else None

    return ids, list(decoder.generate(ids, sampling, seed, ending, options.tokens))


def model_path(options: argparse.Namespace) -> str:
    return options.model or str(catalog.resolve(catalog.find("demo")).target)


PARTS = {"drafting": drafting, "controller": controller, "replay": replay, "speed": speed}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--model", help="a GGUF file; the demo model if none is named")
    parser.add_argument("--draft", help="a smaller one with the same vocabulary")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of llama.cpp; fewer on a busy machine")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = PARTS[options.part](options)
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
