"""What happens between answers and around them: switches, stops, edits, prompts, seeds and failures."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import Generator

from localspec.errors import ModelError
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters import create
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Round, Token, Tokens
from localspec.spec.verify import VERIFIERS
from tests.fakes import FakeModel, never, noise, rambling
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, own_draft, quiet, ready, text, untimed

# Changes of mind


@pytest.mark.parametrize("every", [1, 2, 3])
def test_the_method_may_change_between_any_two_rounds(every: int) -> None:
    script = rambling(V, seed=5)
    plain = text(answer(ready(FakeModel(script, V), Off()), max_tokens=150))
    drafters: list[Drafter] = [Lookup(), own_draft(script), Off(), own_draft(noise(V, seed=9))]
    decoder = ready(FakeModel(script, V), drafters[0])
    rounds: list[Round] = []
    for done in decoder.generate(PROMPT, GREEDY, 7, never, 150):
        rounds.append(done)
        turn = len(rounds) // every
        decoder.drafter, decoder.length = drafters[turn % 4], Fixed(1 + turn % 5)
        decoder.verifier = VERIFIERS["token" if turn % 2 else "block"]
    assert text(rounds) == plain
    assert {r.method for r in rounds} == {"lookup", "fake", "off"}


def edit(rounds: list[Round]) -> list[Token]:
    """A later turn that shares some of the earlier prompt and answer, then goes another way."""
    return [*PROMPT, *text(rounds)[:3], 6, 5, 6]


def regenerate(rounds: list[Round]) -> list[Token]:
    return list(PROMPT)


def go_on(rounds: list[Round]) -> list[Token]:
    return [*PROMPT, *text(rounds)]


@pytest.mark.parametrize("then", [edit, regenerate, go_on])
@pytest.mark.parametrize("stop_after", range(6))
@pytest.mark.parametrize("method", ["model", "lookup"])
def test_a_stopped_answer_leaves_nothing_behind(
    method: str, stop_after: int, then: Callable[[list[Round]], list[Token]]
) -> None:
    def fresh() -> Drafter:
        return own_draft(rambling(V, seed=2)) if method == "model" else Lookup()

    script = rambling(V)
    decoder = ready(FakeModel(script, V), fresh())
    rounds = list(islice(decoder.generate(PROMPT, WARM, 7, never), stop_after))
    prompt = then(rounds)
    decoder.prefill(prompt, quiet, lambda: False)
    again = answer(decoder, prompt, WARM, seed=8)
    assert untimed(again) == untimed(answer(ready(FakeModel(script, V), fresh(), prompt), prompt, WARM, seed=8))


# Reading the prompt


def test_the_prompt_is_read_in_chunks_with_progress() -> None:
    model, seen = FakeModel(noise(V), V, n_batch=8), []
    decoder = SpeculativeDecoder(model, Off(), Fixed(4))
    prompt = [token % V for token in range(30)]
    reused = decoder.prefill(prompt, lambda done, total: seen.append((done, total)), lambda: False, chunk=10)
    assert reused == 0
    assert seen == [(8, 29), (16, 29), (24, 29), (29, 29)]
    assert model.decodes == [(8, 0), (8, 0), (8, 0), (5, 0)]


def test_a_stop_between_chunks_keeps_what_was_read() -> None:
    model, stops = FakeModel(noise(V), V), iter([False, False, True])
    decoder = SpeculativeDecoder(model, Off(), Fixed(4))
    prompt = [token % V for token in range(30)]
    decoder.prefill(prompt, quiet, lambda: next(stops), chunk=10)
    assert list(model.cached) == prompt[:20]
    assert decoder.prefill(prompt, quiet, lambda: False) == 20


def test_the_common_prefix_is_not_read_again() -> None:
    model = FakeModel(noise(V), V)
    decoder = ready(model, Off())
    rounds = answer(decoder)
    model.decodes.clear()
    assert decoder.prefill([*PROMPT, *text(rounds), 5, 6], quiet, lambda: False) == len(PROMPT) + 59
    assert model.decodes == [(2, 0)]
    model.decodes.clear()
    assert decoder.prefill(PROMPT, quiet, lambda: False) == len(PROMPT) - 1
    assert model.decodes == []


# Caches that can't be cut


@pytest.mark.parametrize("drafter", [Off(), Lookup()])
def test_a_model_that_cannot_rewind_works_without_drafts(drafter: Drafter) -> None:
    script = rambling(V)
    plain = text(answer(ready(FakeModel(script, V), Off())))
    model = FakeModel(script, V, max_rows=1, rewinds=False)
    decoder = ready(model, drafter)
    rounds = answer(decoder)
    assert text(rounds) == plain
    assert {r.limit for r in rounds} == {0}
    assert decoder.prefill(PROMPT, quiet, lambda: False) == 0, "cleared and read again"
    assert text(answer(decoder)) == plain


# Randomness


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("method", ["lookup", "suffix"])
def test_a_seed_gives_the_same_text_whatever_is_proposed_with_certainty(method: str, verifier: str, k: int) -> None:
    """Each token takes the random numbers that plain decoding takes for it, at any temperature."""
    for seed in range(10):
        plain = answer(ready(FakeModel(rambling(V, seed), V), Off()), sampling=WARM, seed=seed, max_tokens=150)
        decoder = ready(FakeModel(rambling(V, seed), V), create(method), k=k, verifier=verifier)
        drafted = answer(decoder, sampling=WARM, seed=seed, max_tokens=150)
        assert text(drafted) == text(plain)
        assert sum(r.accepted for r in drafted) > 0, "nothing was tried"


def test_the_same_seed_gives_the_same_rounds_and_another_seed_others() -> None:
    def run(seed: int) -> list[Round]:
        drafter = own_draft(noise(V, seed=1))
        return answer(ready(FakeModel(noise(V), V), drafter), sampling=WARM, seed=seed)

    assert untimed(run(1)) == untimed(run(1))
    assert text(run(1)) != text(run(2))


class Restless:
    """Draws random numbers, and proposes what the inner drafter proposes."""

    name: ClassVar[str] = "restless"

    def __init__(self, inner: Drafter) -> None:
        self.inner = inner

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        rng.random(len(context))
        return self.inner.draft(context, limit, sampling, rng)

    def close(self) -> None:
        pass


@pytest.mark.parametrize("method", ["off", "lookup"])
def test_what_a_drafter_draws_never_moves_the_targets_draws(method: str) -> None:
    script = rambling(V)
    calm = answer(ready(FakeModel(script, V), create(method)), sampling=WARM)
    restless = answer(ready(FakeModel(script, V), Restless(create(method))), sampling=WARM)
    assert text(restless) == text(calm)


def test_a_model_that_computes_nan_is_an_error_and_the_next_answer_is_sound() -> None:
    broken = True

    def script(context: tuple[Token, ...]) -> Any:
        row = np.asarray(rambling(V)(context))
        return row * np.nan if broken and len(context) == len(PROMPT) + 9 else row

    decoder = ready(FakeModel(script, V), own_draft(rambling(V)))
    with pytest.raises(ModelError, match="NaN"):
        answer(decoder, sampling=WARM)
    broken = False
    decoder.prefill(PROMPT, quiet, lambda: False)
    again = answer(decoder, sampling=WARM)
    assert untimed(again) == untimed(
        answer(ready(FakeModel(rambling(V), V), own_draft(rambling(V))), sampling=WARM)
    )
