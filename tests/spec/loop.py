"""How the tests of this folder drive the loop."""

from __future__ import annotations

from typing import Any

from localspec.spec.decoder import Ending, SpeculativeDecoder
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Drafter, Round, Token, Tokens
from localspec.spec.verify import VERIFIERS
from tests.fakes import FakeDrafter, FakeModel, Script, never

V = 12
PROMPT = (1, 2, 3, 4, 1, 2, 3)
GREEDY = Sampling(temperature=0)
WARM = Sampling(temperature=0.9, top_k=8, top_p=0.95, min_p=0)


def quiet(done: int, total: int) -> None:
    pass


def ready(
    model: FakeModel, drafter: Drafter, prompt: Tokens = PROMPT, *, k: int = 4, verifier: str = "block"
) -> SpeculativeDecoder:
    decoder = SpeculativeDecoder(model, drafter, Fixed(k), VERIFIERS[verifier])
    decoder.prefill(prompt, quiet, lambda: False, chunk=5)
    return decoder


def answer(
    decoder: SpeculativeDecoder,
    prompt: Tokens = PROMPT,
    sampling: Sampling = GREEDY,
    *,
    seed: int = 7,
    ending: Ending = never,
    max_tokens: int | None = 60,
    logprobs: int | None = None,
) -> list[Round]:
    """All rounds of one answer. After each, the cache holds the text but for its last token."""
    rounds: list[Round] = []
    for done in decoder.generate(prompt, sampling, seed, ending, max_tokens, logprobs):
        rounds.append(done)
        assert list(decoder.model.cached) == [*prompt, *text(rounds)][:-1]
    return rounds


def text(rounds: list[Round]) -> list[Token]:
    return [token for round in rounds for token in round.emitted]


def untimed(rounds: list[Round]) -> list[tuple[Any, ...]]:
    return [(r.source, r.drafted, r.accepted, r.emitted, r.p, r.q, r.limit, r.finish) for r in rounds]


def own_draft(script: Script) -> FakeDrafter:
    return FakeDrafter(FakeModel(script, V))
