#!/usr/bin/env python3
"""What true rejection sampling is worth: acceptance of the same draft model under three rules, in one run.

The target is the demo model, the draft a copy of it that llama.cpp quantised further. Rules: block and token
verification of sampled drafts; and sample-and-compare, where the draft's most likely tokens count as certain, as most
local engines have it above temperature 0. Acceptance does not depend on the speed of the machine.

Usage: python scripts/bench_acceptance.py [--json FILE] [--tokens N] [--temperature T]
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from numpy.random import Generator

sys.path.insert(0, str(Path(__file__).parent))

from quantise import quantise

from localspec import catalog, config
from localspec.chat.message import Message
from localspec.chat.prompt import encode
from localspec.chat.template import ChatTemplate
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.stats import fold
from localspec.spec.types import Draft, Round, Tokens
from localspec.spec.verify import VERIFIERS

PROMPTS = (
    "Explain why the sky is blue.",
    "Write a short story about a clock maker.",
    "Write a Python function that merges two sorted lists.",
    "Give me a recipe for pancakes.",
    "What should I see in a day in Lisbon?",
    "Compare cats and dogs as pets.",
)
TARGET_GAIN = 1.15


class Compared:
    """The same draft model, handing over its most likely tokens as certain."""

    name: ClassVar[str] = "compare"

    def __init__(self, inner: ModelDrafter) -> None:
        self._inner = inner

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        draft = self._inner.draft(context, limit, replace(sampling, temperature=0.0), rng)
        return Draft(draft.tokens, source=self.name)

    def close(self) -> None:
        pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--k", type=int, default=4)
    options = parser.parse_args()
    source = catalog.resolve(catalog.find("demo")).target
    folder = config.cache_dir()
    folder.mkdir(parents=True, exist_ok=True)
    copy = quantise(source, folder / "demo-Q2_K.gguf", "Q2_K")
    target = LlamaModel.load(ModelSpec(str(source), n_ctx=2048, threads=1))
    draft = LlamaModel.load(ModelSpec(str(copy), n_ctx=2048, threads=1), role="draft")
    inner = ModelDrafter(draft, target.n_vocab, target.vocab.eog)
    rows = {}
    for rule, drafter, verifier in (
        ("block verification", inner, "block"),
        ("token verification", inner, "token"),
        ("sample and compare", Compared(inner), "token"),
    ):
        decoder = SpeculativeDecoder(target, drafter, Fixed(options.k), VERIFIERS[verifier])
        rounds = [r for i, prompt in enumerate(PROMPTS) for r in answer(decoder, target, prompt, i, options)]
        stats = fold(rounds)
        rows[rule] = {
            "acceptance_rate": stats.acceptance_rate,
            "mean_acceptance_length": stats.mean_acceptance_length,
            "tested": stats.tested,
            "accepted": stats.accepted,
            "rounds": stats.rounds,
            "per_position": [[at.reached, at.accepted] for at in stats.per_position],
        }
        print(f"{rule:20} acceptance {stats.acceptance_rate:.3f}   mean length {stats.mean_acceptance_length:.2f}")
    gain = rows["token verification"]["acceptance_rate"] / rows["sample and compare"]["acceptance_rate"]
    verdict = "PASS" if gain >= TARGET_GAIN else "FALLS SHORT"
    print(f"true sampling against sample-and-compare: {gain:.2f}x (target {TARGET_GAIN:.2f}x)  {verdict}")
    if options.json:
        settings = {
            "temperature": options.temperature,
            "k": options.k,
            "tokens": options.tokens,
            "draft": "Q2_K copy",
        }
        options.json.write_text(json.dumps({"settings": settings, "rules": rows, "gain": gain}, indent=2) + "\n")


def answer(
    decoder: SpeculativeDecoder, target: LlamaModel, prompt: str, seed: int, options: argparse.Namespace
) -> list[Round]:
    vocab = target.vocab
    messages = (Message("user", prompt),)
    rendered = ChatTemplate(vocab.chat_template, bos=vocab.bos_text, eos=vocab.eos_text).render(messages)
    ids = encode(rendered, messages, vocab)
    decoder.prefill(ids, lambda done, total: None, lambda: False)
    sampling = Sampling(temperature=options.temperature, top_k=40, top_p=0.95, min_p=0.05, banned=tuple(vocab.eog))
    return list(decoder.generate(ids, sampling, seed, lambda token: None, options.tokens))


if __name__ == "__main__":
    main()
