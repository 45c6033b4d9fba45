"""A draft model: its cache, its vocabulary, its context, where it stops, and what it hands over."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.errors import ModelError
from localspec.spec.distribution import Distribution
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Tokens
from localspec.spec.verify import VERIFIERS
from tests.conftest import Load, Models
from tests.fakes import FakeModel, Script, at, fixed, noise, rambling, saying
from tests.spec.drafts import plainly
from tests.spec.laws import Prefix, assert_target_law, dense, emitted
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, ready, text

PURE = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)


def drafter(script: Script, n_vocab: int = V, target: int = V, eog: Any = (), **model: Any) -> ModelDrafter:
    return ModelDrafter(FakeModel(script, n_vocab, **model), target, eog, unsure=0.0)


def propose(of: ModelDrafter, context: Tokens, limit: int = 4, sampling: Sampling = PURE, seed: int = 0) -> Draft:
    return of.draft(np.asarray(context, np.int32), limit, sampling, default_rng(seed))


def full(q: Distribution, n_vocab: int) -> list[float]:
    return [q.prob(token) for token in range(n_vocab)]


# In step with the text


def test_after_a_full_acceptance_the_last_drafted_token_is_read() -> None:
    of = drafter(rambling(V))
    first = propose(of, PROMPT)
    context = [*PROMPT, *first.tokens, 5]
    decodes = of._model.decodes  # type: ignore[attr-defined]
    decodes.clear()
    again = propose(of, context)
    assert decodes[0] == (1, 0), "the last drafted token, which was not read when it was drawn"
    assert decodes[1] == (1, 1), "then the bonus"
    assert plainly(again) == plainly(propose(drafter(rambling(V)), context))


@pytest.mark.parametrize("kept", range(5))
def test_after_a_rejection_only_what_differs_is_read(kept: int) -> None:
    of = drafter(rambling(V))
    first = propose(of, PROMPT)
    context = [*PROMPT, *first.tokens[:kept], (first.tokens[kept] + 1) % V if kept < 4 else 3]
    decodes = of._model.decodes  # type: ignore[attr-defined]
    decodes.clear()
    found = propose(of, context)
    assert sum(tokens for tokens, _ in decodes) <= 1 + (kept == 4) + 3
    assert plainly(found) == plainly(propose(drafter(rambling(V)), context))


def test_a_long_prompt_is_read_in_batches() -> None:
    of = drafter(rambling(V), n_batch=8)
    propose(of, [i % V for i in range(30)], limit=1)
    assert of._model.decodes == [(8, 0), (8, 0), (8, 0), (5, 0), (1, 1)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("rewinds", [True, False])
def test_a_cache_that_can_only_be_cleared_gives_the_same_drafts(rewinds: bool) -> None:
    of, texts = drafter(rambling(V), rewinds=rewinds), [PROMPT, (*PROMPT, 3, 4), PROMPT[:4], (*PROMPT[:4], 9)]
    for context in texts:
        assert plainly(propose(of, context)) == plainly(propose(drafter(rambling(V)), context))


def test_its_own_context_is_respected() -> None:
    """The last drafted token needs no place."""
    assert len(propose(drafter(rambling(V), n_ctx=12), PROMPT, limit=20).tokens) == 12 - len(PROMPT) + 1
    assert len(propose(drafter(rambling(V), n_ctx=len(PROMPT)), PROMPT).tokens) == 1
    assert propose(drafter(rambling(V), n_ctx=len(PROMPT) - 1), PROMPT) == Draft()


# What it hands over


def test_it_hands_over_what_it_drew_from() -> None:
    draft = propose(drafter(fixed([0.5, 0.3, 0.2]), 3, 3), [0, 1], limit=50)
    assert draft.probs is not None
    assert all(full(q, 3) == pytest.approx([0.5, 0.3, 0.2]) for q in draft.probs)
    assert {0, 1, 2} == set(draft.tokens)
    assert draft.source == "draft"


def test_it_draws_under_the_targets_settings() -> None:
    cold = Sampling(temperature=0.5, top_k=2, top_p=1, min_p=0)
    draft = propose(drafter(fixed([0.5, 0.3, 0.2]), 3, 3), [0], limit=1, sampling=cold)
    assert draft.probs is not None
    assert full(draft.probs[0], 3) == pytest.approx([0.25 / 0.34, 0.09 / 0.34, 0])


def test_penalties_count_the_drafted_tokens_too() -> None:
    strict = Sampling(temperature=0, presence_penalty=100)
    assert propose(drafter(fixed([0.4, 0.3, 0.2, 0.1]), 4, 4), [3], 3, strict).tokens == (0, 1, 2)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.8, top_k=1)])
def test_for_a_greedy_target_its_proposals_are_certain(sampling: Sampling) -> None:
    draft = propose(drafter(fixed([0.2, 0.5, 0.3]), 3, 3), [0], 3, sampling)
    assert draft.tokens == (1, 1, 1)
    assert draft.probs is None


# Vocabularies of different widths


def test_padding_of_the_draft_is_never_proposed() -> None:
    draft = propose(drafter(fixed([0.1, 0.1, 0.8]), 3, 2), [0], limit=30)
    assert set(draft.tokens) <= {0, 1}
    assert draft.probs is not None
    assert full(draft.probs[0], 2) == pytest.approx([0.5, 0.5])


def test_padding_of_the_target_gets_no_probability() -> None:
    draft = propose(drafter(fixed([0.5, 0.5]), 2, 5), [0], limit=3)
    assert draft.probs is not None
    assert full(draft.probs[0], 5) == pytest.approx([0.5, 0.5, 0, 0, 0])


def test_a_token_that_the_draft_does_not_know_silences_it() -> None:
    assert propose(drafter(fixed([0.5, 0.5]), 2, 5), [0, 4, 1]) == Draft()


def test_settings_may_speak_of_tokens_that_the_draft_does_not_know() -> None:
    sampling = Sampling(temperature=1, top_k=0, top_p=1, min_p=0, banned=(0, 4), logit_bias=((1, 1.0), (3, 5.0)))
    draft = propose(drafter(fixed([0.5, 0.3, 0.2]), 3, 5), [1], 20, sampling)
    assert set(draft.tokens) <= {1, 2}


# Where it stops


def test_its_end_token_ends_the_draft_and_nothing_else() -> None:
    of = drafter(saying([5, 6, 2, 7], V, len(PROMPT)), eog=(2,))
    assert propose(of, PROMPT, 9, GREEDY).tokens == (5, 6, 2)
    assert propose(of, [*PROMPT, 5, 6, 2], 9, GREEDY).tokens[0] == 7


def unsure(script: Script, **options: Any) -> ModelDrafter:
    return ModelDrafter(FakeModel(script, V), V, **options)


@pytest.mark.parametrize("sampling", [GREEDY, PURE], ids=["greedy", "sampled"])
def test_it_stops_where_the_draft_would_hardly_survive(sampling: Sampling) -> None:
    flat = fixed([1 / V] * V)  # peak 1/12, so a token counts as 0.29, and two as 0.083
    assert len(propose(unsure(flat), PROMPT, 9, sampling).tokens) == 1
    assert len(propose(unsure(flat, unsure=0.05), PROMPT, 9, sampling).tokens) == 2
    sharp = fixed([1 - 1e-3, *[1e-3 / (V - 1)] * (V - 1)])
    assert len(propose(unsure(sharp), PROMPT, 9, sampling).tokens) == 9


def test_what_was_drawn_does_not_decide_where_it_stops() -> None:
    """A cut that looks at the token would bias what is left: the length may depend on the rows alone."""
    rows = {True: fixed([0.6, 0.4 / 11, *[0.4 / 11] * 10]), False: fixed([1 / V] * V)}
    of = unsure(lambda context: rows[len(context) < len(PROMPT) + 3](context), unsure=0.25)
    lengths = {len(propose(of, PROMPT, 9, seed=seed).tokens) for seed in range(50)}
    assert lengths == {3}


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_a_draft_that_stops_early_leaves_the_law_alone(verifier: str) -> None:
    """Exactly, over all that a round can do."""
    rng = default_rng(3)
    weights = {prefix: rng.dirichlet([0.6] * 3) for n in range(4) for prefix in product(range(3), repeat=n)}
    own = {prefix: rng.dirichlet([0.6] * 3) for n in range(4) for prefix in product(range(3), repeat=n)}

    def target(prefix: Prefix) -> Distribution:
        return dense(weights[prefix])

    def proposed(rng: Any) -> Draft:
        script: Script = lambda context: np.log(own[context[1:]])  # noqa: E731
        return ModelDrafter(FakeModel(script, 3), 3, unsure=0.5).draft([0], 3, PURE, rng)

    outcomes = emitted(target, proposed, VERIFIERS[verifier])
    assert {len(tokens) for tokens in outcomes} == {1, 2, 3, 4}, "it stops here and there"
    assert_target_law(outcomes, target, 3, 3)


def test_nan_logits_of_the_draft_are_an_error_of_the_draft() -> None:
    with pytest.raises(ModelError):
        propose(drafter(lambda context: np.full(V, np.nan)), PROMPT)


# A target that is its own draft


@pytest.mark.parametrize("sampling", [GREEDY, WARM, PURE], ids=["greedy", "warm", "pure"])
@pytest.mark.parametrize("verifier", ["block", "token"])
def test_its_own_draft_is_accepted_for_three_hundred_tokens(sampling: Sampling, verifier: str) -> None:
    decoder = ready(FakeModel(noise(V), V), drafter(noise(V)), verifier=verifier)
    rounds = answer(decoder, sampling=sampling, max_tokens=300)
    assert len(text(rounds)) == 300
    assert all(r.accepted == len(r.drafted) for r in rounds)
    assert [len(r.drafted) for r in rounds] == [4] * 60


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=0.8, seed=1)], ids=["greedy", "sampled"])
def test_so_it_is_on_llama(models: Models, load: Load, sampling: Sampling) -> None:
    """Across the border of a batch, on the weights whose logits don't depend on the width of a pass."""
    path = models("noise_q8")
    target, draft = (load(path, n_ctx=1024) for _ in range(2))
    prompt = default_rng(0).integers(3, 260, size=target.n_batch - 150).tolist()
    decoder = ready(target, ModelDrafter(draft, target.n_vocab, unsure=0.0), prompt)  # type: ignore[arg-type]
    rounds = answer(decoder, prompt, sampling, max_tokens=300)
    assert len(text(rounds)) == 300
    assert all(r.accepted == len(r.drafted) == 4 for r in rounds[:-1])


def test_an_end_that_only_the_draft_knows_does_not_end_the_answer() -> None:
    of = drafter(saying([5, 6, 2, 7, 8, 9], V, len(PROMPT)), eog=(2,))
    rounds = answer(ready(FakeModel(saying([5, 6, 2, 7, 8, 9], V, len(PROMPT)), V), of), max_tokens=6, ending=at(9))
    assert text(rounds) == [5, 6, 2, 7, 8, 9]
