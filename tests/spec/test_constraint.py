"""Constrained rows against their definition, their law under drafts, and the loop that uses them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.errors import ModelError
from localspec.grammar.automaton import Grammar
from localspec.grammar.matcher import Alphabet, Matcher
from localspec.spec.constraint import ConstrainedRows, constrained
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.distribution import Distribution
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Finish, Token
from localspec.spec.verify import VERIFIERS
from tests.fakes import FakeDrafter, FakeModel, ScriptedDrafter, at, noise, rambling
from tests.spec.laws import EXACT, Model, Prefix, assert_target_law, dense, emitted
from tests.spec.loop import GREEDY, PROMPT, V, answer, quiet, text

PIECES = [b"a", b"b", b"ab", b"c", b"ba", b"", b"x", b"y", b"xy", b"", b"aa", b"z"]
END = 9
ALPHABET = Alphabet(PIECES, {END})
assert len(PIECES) == V


def begin(grammar: str) -> Matcher:
    return Matcher.begin(Grammar(grammar), ALPHABET)


@dataclass(frozen=True)
class Allowed:
    """These tokens at every place, and a count of what was asked."""

    flags: np.ndarray
    asked: list[int]

    def allows(self, ids: np.ndarray) -> np.ndarray:
        self.asked.append(ids.size)
        found: np.ndarray = self.flags[ids]
        return found

    def after(self, token: Token) -> Allowed:
        return self


SETTINGS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.0]),
    top_k=st.sampled_from([0, 1, 2, 7, 40, 5000]),
    top_p=st.sampled_from([0.1, 0.5, 0.9, 0.999, 1.0]),
    min_p=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
)


@given(
    SETTINGS, st.integers(0, 2**32 - 1), st.sampled_from([0.001, 0.05, 0.5, 1.0]), st.sampled_from([0.3, 3.0, 9.0])
)
def test_p_is_that_of_the_row_without_its_forbidden_tokens(
    sampling: Sampling, seed: int, share: float, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    row = (scale * rng.standard_normal(3000)).astype(np.float32)
    row[rng.integers(0, 3000, 40)] = row[0]  # ties
    row[rng.integers(0, 3000, 40)] = -np.inf
    flags = rng.random(3000) < share
    flags[rng.integers(0, 3000)] = True
    flags[np.flatnonzero(row > -np.inf)[0]] = True
    masked = np.where(flags, row, np.float32(-np.inf))
    wanted = spread(distribution(masked, [], sampling), 3000)
    found = spread(constrained(row, sampling, Allowed(flags, [])), 3000)
    assert np.abs(wanted - found).max() < EXACT


def spread(p: Distribution, n: int) -> np.ndarray:
    row = np.zeros(n)
    row[slice(None) if p.ids is None else p.ids] = p.probs
    return row


@pytest.mark.parametrize(
    "sampling", [GREEDY, Sampling(), Sampling(top_k=0, top_p=1.0, min_p=0.1), Sampling(min_p=0)]
)
def test_a_likely_token_that_is_allowed_needs_few_questions(sampling: Sampling) -> None:
    row = np.linspace(10, -90, 50_000, dtype=np.float32)
    row[:20] = np.linspace(80, 40, 20)
    allowed = Allowed(np.ones(50_000, np.bool_), [])
    constrained(row, sampling, allowed)
    assert sum(allowed.asked) <= 64


def test_where_nothing_fits_it_is_said() -> None:
    row = np.zeros(3000, np.float32)
    banned = np.arange(3000) < 5
    for sampling in (GREEDY, Sampling(), Sampling(top_k=0, top_p=1.0, min_p=0.0)):
        with pytest.raises(ModelError, match="grammar"):
            constrained(row, sampling, Allowed(np.zeros(3000, np.bool_), []))
        with pytest.raises(ModelError, match="grammar"):
            constrained(np.where(banned, np.float32(-np.inf), row), sampling, Allowed(banned, []))


def test_damage_in_forbidden_places_is_noticed() -> None:
    row = np.zeros(3000, np.float32)
    row[17] = np.nan
    flags = np.arange(3000) < 10
    for sampling in (GREEDY, Sampling(), Sampling(top_k=0, top_p=1.0, min_p=0.0)):
        with pytest.raises(ModelError, match="NaN"):
            constrained(row, sampling, Allowed(flags, []))


LAWS = [
    Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    Sampling(temperature=0.7, top_k=3, top_p=0.9, min_p=0.0),
    Sampling(temperature=1.3, top_k=0, top_p=1.0, min_p=0.2),
]
GRAMMARS = ['root ::= ("a" | "ab" | "c")*', 'root ::= "a" root "b" | ""', "root ::= [abx]{1,3}"]


def logits(prefix: Prefix) -> np.ndarray:
    return np.asarray(noise(V, 1.5, seed=5)(prefix), np.float32)


def target_under(grammar: str, sampling: Sampling) -> Model:
    """The definition, written with whole masks. Behind a forbidden token, where nobody looks, anything."""

    def target(prefix: Prefix) -> Distribution:
        state: Matcher | None = begin(grammar)
        for token in prefix:
            state = state.after(token) if state is not None else None
        if state is None:
            return dense([1.0] * V)
        mask = np.array([state.after(token) is not None for token in range(V)])
        return distribution(np.where(mask, logits(prefix), np.float32(-np.inf)), [], sampling)

    return target


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("grammar", GRAMMARS)
@pytest.mark.parametrize("sampling", LAWS, ids=["plain", "truncated", "min-p"])
@pytest.mark.parametrize("drafting", ["drawn", "certain", "forbidden"])
def test_the_law_of_a_round_is_that_of_the_constrained_target(
    verifier: str, grammar: str, sampling: Sampling, drafting: str
) -> None:
    target = target_under(grammar, sampling)

    def propose(rng: Any) -> Draft:
        if drafting != "drawn":
            return Draft((0, 2) if drafting == "certain" else (0, 11))
        # A draft model that knows no grammar: half of what it draws is forbidden.
        q = dense([4.0, 1, 2, 0.5, 0, 0, 1, 1, 0, 0.5, 0, 0])
        return Draft(tuple(q.sample(rng) for _ in range(2)), (q, q))

    def verify(p: Any, draft: Draft, rng: Any) -> Any:
        block = np.stack([logits(draft.tokens[:i]) for i in range(len(draft.tokens) + 1)])
        return VERIFIERS[verifier](ConstrainedRows(block, [], draft.tokens, sampling, begin(grammar)), draft, rng)

    assert_target_law(emitted(target, propose, verify), target, V, 2)


WRONG = ScriptedDrafter(lambda context: [11, 5, 11])
TRIES: dict[str, Drafter] = {
    "lookup": Lookup(),
    "a model": FakeDrafter(FakeModel(rambling(V), V)),
    "nonsense": WRONG,
    "after the end": ScriptedDrafter(lambda context: [0, END, END, 0, 0]),
}
LONG = 'root ::= ("a" | "b" | "xy" | "c" "z"){8,60}'


def follow(drafter: Drafter, grammar: str, sampling: Sampling = GREEDY, *, seed: int = 1, k: int = 4) -> list[Any]:
    decoder = SpeculativeDecoder(FakeModel(rambling(V), V), drafter, Fixed(k))
    decoder.prefill(PROMPT, quiet, lambda: False)
    return list(decoder.generate(PROMPT, sampling, seed, at(END), 80, constraint=begin(grammar)))


@pytest.mark.parametrize("name", TRIES)
def test_greedy_text_under_a_grammar_is_that_of_plain_decoding(name: str) -> None:
    assert text(follow(TRIES[name], LONG)) == text(follow(Off(), LONG))


@pytest.mark.parametrize("name", TRIES)
@pytest.mark.parametrize("seed", range(5))
def test_every_text_follows_the_grammar_to_its_end(name: str, seed: int) -> None:
    rounds = follow(TRIES[name], LONG, Sampling(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0), seed=seed)
    tokens = text(rounds)
    assert rounds[-1].finish is Finish.STOP and tokens[-1] == END
    state: Matcher | None = begin(LONG)
    for token in tokens:
        assert state is not None
        state = state.after(token)
    assert state is not None and state.state is None


def test_a_forbidden_draft_is_never_accepted_and_leaves_no_trace() -> None:
    rounds = follow(WRONG, 'root ::= "a" "b" | "b" "a"')
    assert [round.accepted for round in rounds] == [0] * len(rounds)
    assert all(round.p == (0.0,) for round in rounds if round.drafted)
    assert b"".join(PIECES[token] for token in text(rounds)) in (b"ab", b"ba")


def test_without_a_constraint_nothing_changes() -> None:
    decoder = SpeculativeDecoder(FakeModel(rambling(V), V), Off(), Fixed(0))
    decoder.prefill(PROMPT, quiet, lambda: False)
    assert 5 in text(answer(decoder, max_tokens=400)), "a token that a grammar would forbid"
