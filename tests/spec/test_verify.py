"""The exact rule, by enumeration: whatever the draft, the emitted tokens have the target's law to 1e-12."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from localspec.spec import decoder as decoder_module
from localspec.spec.distribution import Distribution, certain
from localspec.spec.drafters.off import Off
from localspec.spec.sampling import LazyRows, distribution
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter
from localspec.spec.verify import VERIFIERS, verify_block, verify_tokens
from tests.fakes import FakeDrafter, FakeModel, noise
from tests.spec.enumeration import law
from tests.spec.laws import Model, Prefix, Rows, assert_target_law, dense, drawn, emitted, mean_accepted
from tests.spec.loop import answer, quiet, ready, text

both = pytest.mark.parametrize("verifier", VERIFIERS.values(), ids=VERIFIERS)

# Small whole numbers: zeros, ties, equal rows and certainties all turn up.
weights = st.lists(st.integers(0, 6), min_size=3, max_size=3).filter(any)
pools = st.lists(weights, min_size=1, max_size=4)


def from_pool(pool: list[list[int]], salt: int = 1) -> Model:
    """A model whose row depends on the whole prefix."""
    rows = [dense(row) for row in pool]
    return lambda prefix: rows[hash((salt, *prefix)) % len(rows)]


def random_model(seed: int, n_vocab: int, scale: float = 1.5) -> Model:
    @cache
    def row(prefix: Prefix) -> Distribution:
        return dense(np.exp(scale * default_rng([seed, *prefix]).standard_normal(n_vocab)).tolist())

    return row


# One round


@both
def test_the_example_with_two_outcomes(verifier: Any) -> None:
    """Target 0.6 / 0.4, draft 0.8 / 0.2: A is accepted with 0.75, B always, and the correction is always B."""
    target, draft = dense([0.6, 0.4]), dense([0.8, 0.2])
    a, b = 0, 1

    def judged(token: int) -> dict[tuple[int, int], float]:
        def judge(rng: Any) -> tuple[int, int]:
            verdict = verifier([target, certain(7)], Draft((token,), (draft,)), rng)
            return verdict.accepted, verdict.token

        return law(judge)

    assert judged(a) == pytest.approx({(1, 7): 0.75, (0, b): 0.25})
    assert judged(b) == {(1, 7): 1.0}
    assert_target_law(emitted(lambda _: target, drawn(lambda _: draft, 1), verifier), lambda _: target, 2, 1)


@both
@given(p=pools, q=pools, k=st.integers(0, 3))
@settings(max_examples=60)
def test_a_round_has_the_targets_law(verifier: Any, p: list[list[int]], q: list[list[int]], k: int) -> None:
    target = from_pool(p)
    outcomes = emitted(target, drawn(from_pool(q, salt=2), k), verifier)
    assert_target_law(outcomes, target, 3, k + 1)


@both
@given(p=pools, draft=st.lists(st.integers(0, 2), max_size=4))
@settings(max_examples=60)
def test_a_draft_proposed_with_certainty(verifier: Any, p: list[list[int]], draft: list[int]) -> None:
    target = from_pool(p)
    outcomes = emitted(target, lambda rng: Draft(tuple(draft)), verifier)
    assert_target_law(outcomes, target, 3, len(draft) + 1)


@both
@pytest.mark.parametrize("seed", range(3))
def test_a_long_draft(verifier: Any, seed: int) -> None:
    target = random_model(seed, 2)
    assert_target_law(emitted(target, drawn(random_model(seed + 50, 2), 5), verifier), target, 2, 6)


@both
@given(p=pools, q=pools, limit=st.integers(1, 3), threshold=st.floats(0.3, 1.0))
@settings(max_examples=60)
def test_a_draft_may_stop_for_reasons_known_before_the_token(
    verifier: Any, p: list[list[int]], q: list[list[int]], limit: int, threshold: float
) -> None:
    """A confidence rule on the row, and on the tokens so far: a stopping time."""
    target, model = from_pool(p), from_pool(q, salt=2)

    def propose(rng: Any) -> Draft:
        tokens: Prefix = ()
        while len(tokens) < limit and model(tokens).probs.max() >= threshold and tokens[-2:] != (1, 1):
            tokens += (model(tokens).sample(rng),)
        return Draft(tokens, tuple(model(tokens[:i]) for i in range(len(tokens))))

    assert_target_law(emitted(target, propose, verifier), target, 3, limit + 1)


@both
def test_rows_that_agree_but_for_rounding(verifier: Any) -> None:
    """The draft is one bit above the target: a rejection is possible, and then nothing exceeds the draft."""
    p = dense([3, 2, 2])
    q = Distribution(None, p.probs.copy())
    q.probs[0] = np.nextafter(q.probs[0], 1)
    outcomes = emitted(lambda _: p, drawn(lambda _: q, 2), verifier)
    assert min(outcomes.values()) < 1e-15, "the rejection was looked into"
    assert_target_law(outcomes, lambda _: p, 3, 3)


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.5, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 3]),
    top_p=st.sampled_from([0.5, 0.8, 1.0]),
    min_p=st.sampled_from([0.0, 0.2]),
    repeat_penalty=st.sampled_from([1.0, 1.5]),
    frequency_penalty=st.sampled_from([0.0, 0.7]),
    presence_penalty=st.sampled_from([0.0, -0.4]),
    penalty_last_n=st.sampled_from([0, 2, -1]),
)


@both
@given(sampling=samplings, draft_sampling=samplings, k=st.integers(1, 3), seed=st.integers(0, 2**32))
@settings(max_examples=60)
def test_from_logits_with_truncation_and_penalties(
    verifier: Any, sampling: Sampling, draft_sampling: Sampling, k: int, seed: int
) -> None:
    """The draft may even be filtered in another way than the target, as long as it says what it drew from."""
    history = [0, 2, 2]

    def logits(prefix: Prefix, salt: int) -> Any:
        return default_rng([seed, salt, *prefix]).normal(0, 2, 3).astype(np.float32)

    def target(prefix: Prefix) -> Distribution:
        return distribution(logits(prefix, 0), [*history, *prefix], sampling)

    def drafter(prefix: Prefix) -> Distribution:
        return distribution(logits(prefix, 1), [*history, *prefix], draft_sampling)

    propose = drawn(drafter, k)

    def round(rng: Any) -> Prefix:
        draft = propose(rng)
        block = np.stack([logits(draft.tokens[:i], 0) for i in range(k + 1)])
        verdict = verifier(LazyRows(block, history, draft.tokens, sampling), draft, rng)
        return (*draft.tokens[: verdict.accepted], verdict.token)

    assert_target_law(law(round), target, 3, k + 1)


# Several rounds, through the decoder itself


@both
@pytest.mark.parametrize("k", [1, 2])
def test_whole_answers_have_the_law_of_plain_decoding(
    verifier: Any, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampling = Sampling(temperature=0.8, top_k=0, top_p=0.9, min_p=0, repeat_penalty=1.2)

    def answers(drafter: Drafter) -> dict[Prefix, float]:
        def run(rng: Any) -> Prefix:
            monkeypatch.setattr(decoder_module, "default_rng", lambda seed: rng)
            decoder = ready(FakeModel(noise(3, 1.0), 3), drafter, (1, 2), k=k)
            decoder.verifier = verifier
            return tuple(text(answer(decoder, (1, 2), sampling, max_tokens=3)))

        return law(run)

    drafted = answers(FakeDrafter(FakeModel(noise(3, 1.0, seed=1), 3)))
    assert len(drafted) > 15
    assert drafted == pytest.approx(answers(Off()), abs=1e-12)


@both
def test_seeded_draws_have_the_law_too(verifier: Any) -> None:
    """With numpy's real generators: that the streams of drafter and verifier are independent shows only here."""
    runs, prompt, script, sampling = 4000, (1, 2), noise(4, 1.0), Sampling(1.0, 0, 1.0, 0.0)
    decoder = ready(FakeModel(script, 4), FakeDrafter(FakeModel(noise(4, 1.0, seed=1), 4)), prompt, k=2)
    decoder.verifier = verifier
    counts = np.zeros((4, 4))
    for seed in range(runs):
        decoder.prefill(prompt, quiet, lambda: False)
        counts[tuple(text(answer(decoder, prompt, sampling, seed=seed, max_tokens=2)))] += 1

    def p(context: Prefix) -> Any:
        return distribution(np.asarray(script(context), np.float32), context, sampling).probs

    wanted = runs * np.stack([p(prompt)[i] * p((*prompt, i)) for i in range(4)])
    chi_square = float(((counts - wanted) ** 2 / wanted).sum())
    assert chi_square < 44.3, "p < 1e-4 at 15 degrees of freedom"


# How much is accepted


def test_block_verification_accepts_at_least_as_much_and_mostly_more() -> None:
    gains = []
    for seed in range(40):
        target, propose = random_model(seed, 3), drawn(random_model(seed + 100, 3), 3)
        block = mean_accepted(emitted(target, propose, verify_block))
        gains.append(block - mean_accepted(emitted(target, propose, verify_tokens)))
    assert min(gains) > -1e-12
    assert sum(gain > 1e-3 for gain in gains) > 30


@given(p=pools, draft=st.lists(st.integers(0, 2), max_size=4))
@settings(max_examples=40)
def test_a_certain_proposal_is_accepted_equally_often_by_both(p: list[list[int]], draft: list[int]) -> None:
    """Nothing can accept it more often than the target would write it."""
    target = from_pool(p)
    accepted = [emitted(target, lambda rng: Draft(tuple(draft)), verifier) for verifier in VERIFIERS.values()]
    written = np.cumprod([target(tuple(draft[:i])).prob(token) for i, token in enumerate(draft)])
    assert [mean_accepted(outcomes) for outcomes in accepted] == pytest.approx([written.sum()] * 2, abs=1e-12)


@both
def test_a_greedy_target_accepts_exactly_the_draft_it_would_have_written(verifier: Any) -> None:
    def target(prefix: Prefix) -> Distribution:
        return certain(len(prefix) % 3)

    for draft, accepted in [((0, 1, 2), 3), ((0, 1, 1), 2), ((0, 2, 2), 1), ((1, 1, 2), 0)]:
        verdict = verifier(Rows(target, Draft(draft)), Draft(draft), default_rng(0))
        assert (verdict.accepted, verdict.token) == (accepted, accepted % 3)


@both
def test_rows_after_a_certain_rejection_are_not_asked_for(verifier: Any) -> None:
    asked: list[int] = []

    def target(prefix: Prefix) -> Distribution:
        asked.append(len(prefix))
        return certain((0, 1, 0)[min(len(prefix), 2)])

    draft = Draft((0, 1, 2, 0, 1), tuple(dense([1, 1, 1]) for _ in range(5)))
    verifier(Rows(target, draft), draft, default_rng(0))
    assert max(asked) == 2
