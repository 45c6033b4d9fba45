"""The proof passes what is right and finds what is wrong: rules, drafters and loops with a fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import Generator

from localspec.engine.draws import Effort
from localspec.engine.identity import Difference, compare, greedy, text
from localspec.engine.loaded import Loaded
from localspec.engine.messages import Load
from localspec.engine.proof import LEVEL, Plan, Proof, prove
from localspec.errors import LocalspecError
from localspec.model import ModelSpec
from localspec.spec import verify
from localspec.spec.numerics import Numerics
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Tokens, Verdict
from localspec.spec.verify import VERIFIERS
from tests.conftest import Models
from tests.spec.laws import dense
from tests.spec.test_wrong_rules import accept_everything, accept_the_most_likely, from_p, largest

SMALL = Plan(3, 24, Effort(places=2, draws=1500, whole=1500, proposals=300))


@pytest.fixture
def loaded(models: Models) -> Iterator[Callable[..., Loaded]]:
    opened: list[Loaded] = []

    def load(name: str = "noise", numerics: str = "fast", **options: Any) -> Loaded:
        spec = ModelSpec(models(name), **{"threads": 1, "n_ctx": 1024} | options)
        opened.append(Loaded.load(Load(spec, numerics=numerics), lambda role, fraction: True))
        return opened[-1]

    yield load
    for one in opened:
        one.close()


Loading = Callable[..., Loaded]


class Sampler:
    """Draws each token from a distribution that leans the wrong way, and says so, or not."""

    name: ClassVar[str] = "sampler"
    free = True

    def __init__(self, n_vocab: int, *, power: float = 1.0) -> None:
        weights = np.linspace(1.0, 3.0, n_vocab)
        self._said, self._really = dense(weights), dense(weights**power)

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        tokens = tuple(self._really.sample(rng) for _ in range(limit))
        return Draft(tokens, (self._said,) * limit, self.name)

    def close(self) -> None:
        pass


def with_sampler(loaded: Loaded, **options: Any) -> Loaded:
    """In the place of lookup, so that the proof finds it where it looks."""
    loaded.drafting._makers["lookup"] = lambda: Sampler(loaded.target.n_vocab, **options)
    return loaded


def proved(loaded: Loaded, *methods: str, **options: Any) -> Proof:
    return prove(loaded, SMALL, methods=methods or None, **options)


def test_every_method_passes(loaded: Loading) -> None:
    proof = proved(loaded())
    assert proof.passed
    assert {method.method for method in proof.methods} >= {"off", "lookup", "suffix", "auto"}
    for method in proof.methods:
        assert method.trials and all(trial.p >= proof.limit for trial in method.trials)
        assert method.answers == 3 and method.tokens > 0
    assert sum(method.drafted for method in proof.methods if method.method == "lookup") > 0


def test_each_test_gets_its_share_of_the_level(loaded: Loading) -> None:
    proof = proved(loaded(), "off", "lookup")
    assert proof.limit == pytest.approx(LEVEL / sum(len(method.trials) for method in proof.methods))


@pytest.mark.parametrize("rule", VERIFIERS)
def test_a_drafter_with_a_distribution_of_its_own_passes(loaded: Loading, rule: str) -> None:
    (method,) = proved(with_sampler(loaded()), "lookup", verifier=rule).methods
    assert {trial.what for trial in method.trials} >= {"token 1", "proposal"}
    assert method.passed(LEVEL / len(method.trials), strict=True)


@pytest.mark.parametrize("rule", VERIFIERS)
@pytest.mark.parametrize("wrong", [accept_everything, accept_the_most_likely], ids=lambda wrap: wrap.__name__)
def test_a_wrong_rule_is_found(loaded: Loading, monkeypatch: pytest.MonkeyPatch, rule: str, wrong: Any) -> None:
    monkeypatch.setitem(VERIFIERS, rule, wrong(VERIFIERS[rule]))
    assert not proved(loaded(), "lookup", verifier=rule).passed


@pytest.mark.parametrize("rule", VERIFIERS)
@pytest.mark.parametrize("correction", [from_p, largest], ids=["drawn from p", "the largest excess"])
def test_a_wrong_correction_is_found(
    loaded: Loading, monkeypatch: pytest.MonkeyPatch, rule: str, correction: Any
) -> None:
    monkeypatch.setattr(verify, "_correction", correction)
    assert not proved(with_sampler(loaded()), "lookup", verifier=rule).passed


def test_a_wrong_correction_shows_with_certain_proposals_too(
    loaded: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    def drawn_anew(p: Any, draft: Draft, rng: Any) -> Verdict:
        for i, token in enumerate(draft.tokens):
            if p[i].sample(rng) != token:
                return Verdict(i, p[i].sample(rng))  # may be the token that was just rejected
        return Verdict(len(draft.tokens), p[len(draft.tokens)].sample(rng))

    monkeypatch.setattr(verify, "_compare", drawn_anew)
    proof = proved(loaded(), "lookup")
    assert not proof.passed
    assert not proof.methods[0].differences, "greedy text doesn't show it"


def test_a_drafter_that_does_not_draw_from_what_it_says_is_found(loaded: Loading) -> None:
    proof = proved(with_sampler(loaded(), power=4.0), "lookup")
    (method,) = proof.methods
    assert {trial.what for trial in method.failed_trials(proof.limit)} == {"proposal"}


def test_a_rule_that_reads_the_wrong_row_is_a_bug_in_greedy_text(
    loaded: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = VERIFIERS["block"]

    def shifted(p: Any, draft: Draft, rng: Any) -> Verdict:
        verdict = right(p, draft, rng)
        return replace(verdict, token=p[max(0, verdict.accepted - 1)].sample(rng)) if draft.tokens else verdict

    monkeypatch.setitem(VERIFIERS, "block", shifted)
    (method,) = proved(loaded(), "lookup").methods
    assert method.differences and all(found.verdict == "BUG" for found in method.differences)
    assert not method.passed(0.0, strict=False)


def test_a_difference_is_explained_by_the_logits_of_the_target(loaded: Loading) -> None:
    model = loaded()
    prompt = model.target.vocab.tokenise("abcabcabcabc", special=False, bos=False)
    model.choose("off", None)
    rounds = greedy(model, prompt, 6)
    plain = text(rounds)
    model.target.rewind(0)
    model.target.decode([*prompt, *plain[:3]][:-1], rows=0)
    row = model.target.decode([plain[2]], rows=1)[0].copy()
    second = int(np.argsort(-row)[1])
    wrong = [*rounds[:3], replace(rounds[3], emitted=(second,)), *rounds[4:]]
    found = compare(model, 2, prompt, plain, wrong)
    assert found is not None
    assert (found.prompt, found.position, found.plain, found.other, found.rows) == (2, 3, plain[3], second, 1)
    assert found.gap == pytest.approx(float(row[plain[3]] - row[second]))
    assert (found.noise, found.verdict) == (0.0, "BUG")
    assert compare(model, 2, prompt, plain, rounds) is None


def test_the_noise_that_wide_passes_left_in_the_cache_counts(loaded: Loading) -> None:
    """A single row parts from plain decoding as well, where the text before it was written in batches."""
    model = loaded(flash_attn="off")  # F32 weights: one row and several differ in the last bits
    prompt = model.target.vocab.tokenise("abcabcabcabc", special=False, bos=False)
    model.choose("off", None)
    rounds = greedy(model, prompt, 6)
    plain = text(rounds)
    wide = replace(rounds[0], drafted=tuple(plain[:2]), emitted=tuple(plain[:3]), accepted=2)
    other = replace(rounds[3], emitted=(plain[3] + 1,))
    found = compare(model, 1, prompt, plain, [wide, other])
    assert found is not None
    assert found.rows == 3
    assert 0 < found.noise < 1e-4


def test_an_answer_that_goes_on_or_ends_early_is_a_bug(loaded: Loading) -> None:
    model = loaded()
    prompt = model.target.vocab.tokenise("abcabc", special=False, bos=False)
    model.choose("off", None)
    rounds = greedy(model, prompt, 4)
    for plain in (text(rounds)[:3], [*text(rounds), 5]):
        found = compare(model, 1, prompt, plain, rounds)
        assert found is not None and found.position == min(len(plain), 4) and found.verdict == "BUG"


@pytest.mark.parametrize(
    ("gap", "noise", "verdict"), [(0.1, 0.06, "near tie"), (0.1, 0.04, "BUG"), (0.0, 0.0, "BUG"), (0.1, 0.0, "BUG")]
)
def test_a_near_tie_is_a_gap_that_the_noise_can_close(gap: float, noise: float, verdict: str) -> None:
    assert Difference(1, 0, 5, 6, gap, noise, 5).verdict == verdict


def test_strict_numerics_allow_no_difference(loaded: Loading) -> None:
    (method,) = proved(loaded(), "off").methods
    tie = replace(method, differences=(Difference(1, 0, 5, 6, 0.01, 1.0, 5),))
    assert tie.passed(0.0, strict=False)
    assert not tie.passed(0.0, strict=True)


def test_strict_proof_on_a_model_whose_batches_differ_drafts_nothing(
    loaded: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    noisy = Numerics(1, 0.5, (2,), 1)
    monkeypatch.setattr("localspec.engine.loaded.numerics", lambda model, deep: noisy)
    monkeypatch.setattr("localspec.engine.proof.numerics", lambda model, deep: noisy)
    proof = proved(loaded(numerics="strict"))
    assert proof.strict and proof.passed
    assert all(method.drafted == 0 for method in proof.methods)
    assert all(trial.what == "token 1" for method in proof.methods for trial in method.trials)


def test_the_same_proof_comes_out_twice(loaded: Loading) -> None:
    model = loaded()
    first, second = (proved(model, "lookup", "suffix") for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_it_says_what_it_does(loaded: Loading) -> None:
    heard: list[str] = []
    prove(loaded(), SMALL, methods=("off", "lookup"), tell=heard.append)
    assert "plain decoding" in heard
    assert [line for line in heard if line.startswith("lookup")] == ["lookup: greedy text", "lookup: draws"]


def test_a_method_that_is_not_there_is_refused_with_its_reason(loaded: Loading) -> None:
    with pytest.raises(LocalspecError, match="no draft model"):
        proved(loaded(), "draft")


def test_a_context_without_room_for_the_prompts_is_refused(loaded: Loading) -> None:
    with pytest.raises(LocalspecError, match="too small"):
        prove(loaded(n_ctx=256), replace(SMALL, tokens=240))


def test_a_model_that_can_not_speculate_is_still_proved(loaded: Loading) -> None:
    proof = proved(loaded("recur"))
    assert proof.passed
    assert "off" in {method.method for method in proof.methods}


def test_a_real_model_passes(demo_model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localspec.engine.proof.numerics", lambda model, deep: None)  # measured in its own test
    model = Loaded.load(Load(ModelSpec(demo_model, n_ctx=1024, threads=1)), lambda role, fraction: True)
    proof = prove(model, Plan(2, 12, Effort(1, 600, 200, 20)), methods=("lookup",))
    model.close()
    assert proof.passed
    assert proof.methods[0].differences == () and proof.methods[0].drafted > 0
