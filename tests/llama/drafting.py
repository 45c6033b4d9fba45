"""How the tests of the drafters with a head drive them: on a tiny target, against plain decoding and a fresh head."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, default_rng

from localspec import gguf
from localspec.llama.drafters.dflash import DFlash
from localspec.llama.drafters.eagle3 import Eagle3
from localspec.llama.drafters.follower import Follower
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Finish, Round, Token, Tokens
from tests.ggufs_heads import HEADS, target

GREEDY = Sampling(temperature=0)
PROMPT = default_rng(7).integers(3, 260, size=700).tolist()


class Files:
    """Paths of the tiny target and its heads by name; each file is written when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> str:
        path = self._folder / f"{name}.gguf"
        if not path.exists():
            (HEADS | {"target": target})[name](path)
        return str(path)


def open_target(files: Files) -> Iterator[LlamaModel]:
    model = LlamaModel.load(ModelSpec(files("target"), threads=1, n_ctx=1024))
    yield model
    model.close()


def head(model: LlamaModel, path: str, **options: Any) -> Follower:
    """Without a confidence stop unless a test asks for it: drafts have the length that was asked for."""
    kind = Eagle3 if gguf.read(path).architecture == "eagle3" else DFlash
    return kind(model, ModelSpec(path, threads=1), **({"unsure": 0.0} | options))


def answer(
    model: LlamaModel,
    drafter: Drafter,
    prompt: list[Token],
    n: int,
    *,
    k: int = 4,
    sampling: Sampling = GREEDY,
    watch: Callable[[list[Token], Round], None] = lambda context, done: None,
    decoder: SpeculativeDecoder | None = None,
) -> list[Token]:
    """`n` tokens; `watch` is called after each round with the context as it was before it."""
    decoder = decoder or SpeculativeDecoder(model, drafter, Fixed(k))
    decoder.prefill(prompt, lambda done, total: None, lambda: False)
    context = list(prompt)
    for done in decoder.generate(prompt, sampling, 7, never, n):
        watch(context, done)
        context += done.emitted
    return context[len(prompt) :]


def never(_: Token) -> Finish | None:
    return None


def plain(model: LlamaModel, prompt: list[Token], n: int) -> list[Token]:
    return answer(model, Off(), prompt, n)


class Forced:
    """Lets a head draft, and puts drafts in the place of its own of which as many tokens are right as `accept` says.
    `truth` is the whole text; `own` is what the head drafted last."""

    def __init__(self, inner: Drafter, truth: list[Token], accept: Callable[[int, int], int]) -> None:
        self.name, self._inner, self._truth, self._accept = inner.name, inner, truth, accept
        self._calls = 0
        self.own: tuple[Token, ...] = ()

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self.own = self._inner.draft(context, limit, sampling, rng).tokens
        tokens = self._truth[len(context) : len(context) + limit]
        right = self._accept(self._calls, len(tokens))
        self._calls += 1
        return Draft(tuple(t if i < right else (t + 1) % 260 for i, t in enumerate(tokens)), source=self.name)

    def close(self) -> None:
        """The head belongs to the test."""


PATTERNS: dict[str, Callable[[int, int], int]] = {
    "none": lambda call, k: 0,
    "some": lambda call, k: call * 7919 % (k + 1),
    "all": lambda call, k: k,
    "alternating": lambda call, k: k if call % 2 else 0,
}


class Fresh:
    """What a head drafts that has just been made, for a target that has just read the text."""

    def __init__(self, model: LlamaModel, path: str) -> None:
        self._model, self._path = model, path

    def __call__(self, context: list[Token], k: int) -> tuple[Token, ...]:
        self._model.rewind(0)
        with closing(head(self._model, self._path)) as other:
            read(self._model, context[:-1])
            return other.draft(np.array(context, np.int32), k, GREEDY, default_rng(0)).tokens


def read(model: LlamaModel, tokens: list[Token]) -> None:
    for start in range(0, len(tokens), model.n_batch):
        model.decode(tokens[start : start + model.n_batch], rows=0)
