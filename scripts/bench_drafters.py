#!/usr/bin/env python3
"""What drafters and the automatic choice cost and gain, by the clock. Two parts, each with its targets:

  drafting    microseconds per round and bytes per token of lookup and suffix, as the context grows to 32k tokens
  speed       tokens per second of every method and of auto on a real model, interleaved, over a dozen prompts

Usage: python scripts/bench_drafters.py PART [--model FILE] [--draft FILE] [--tokens N] [--repeats N] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from statistics import geometric_mean, median
from time import perf_counter
from typing import Any

import numpy as np

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
from localspec.spec.types import Drafter, Finish, Round, Tokens

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


def main(about: str, parts: Mapping[str, Callable[[argparse.Namespace], Row]]) -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--model", help="a GGUF file; the demo model if none is named")
    parser.add_argument("--draft", help="a smaller one with the same vocabulary")
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, help="of llama.cpp; fewer on a busy machine")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = parts[options.part](options)
    if options.json:
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        options.json.write_text(json.dumps({"settings": settings, "rows": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main(__doc__, {"drafting": drafting, "speed": speed})
