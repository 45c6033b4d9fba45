from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.spec.drafters.suffix import FLOOR, Suffix, SuffixAutomaton
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft

RNG = np.random.default_rng(0)


limits = st.sampled_from([1, 2, 3, 32])  # small ones, so that short texts reach them


def draft(drafter: Suffix, context: Sequence[int], limit: int = 8) -> Draft:
    return drafter.draft(np.asarray(context, np.int32), limit, Sampling(), RNG)


def reference(context: list[int], limit: int, longest: int) -> tuple[list[int], int]:
    """The same by looking at the whole context for every token."""
    tokens: list[int] = []
    survival, evidence = 1.0, 0
    while len(tokens) < limit:
        text = context + tokens
        followers: list[int] = []
        match = min(longest, len(text)) + 1
        while not followers and match > 1:
            match -= 1
            end = text[-match:]
            places = range(match, len(context))
            followers = [context[i] for i in places if context[i - match : i] == end]
        if not followers:
            break
        # The most frequent; of equals the latest.
        best = max(reversed(followers), key=followers.count)
        chance = followers.count(best) / (len(followers) + 1 / match)
        survival *= chance
        if survival < FLOOR:
            break
        evidence = evidence if tokens else int(8 * chance)
        tokens.append(best)
    return tokens, evidence


contexts = st.lists(st.integers(0, 2), max_size=40) | st.lists(st.integers(0, 30), max_size=60)


@given(limits, contexts, st.integers(0, 12))
def test_drafts_are_those_of_the_definition(longest: int, context: list[int], limit: int) -> None:
    found = draft(Suffix(longest), context, limit)
    assert (list(found.tokens), found.evidence) == reference(context, limit, longest)


@given(limits, st.lists(st.tuples(st.integers(0, 40), st.lists(st.integers(0, 2), max_size=12)), max_size=12))
def test_drafts_depend_on_the_context_alone(longest: int, edits: list[tuple[int, list[int]]]) -> None:
    drafter, context = Suffix(longest), list[int]()
    for keep, new in edits:  # shrinks, diverges, grows
        context = context[:keep] + new
        found = draft(drafter, context)
        assert (list(found.tokens), found.evidence) == reference(context, 8, longest)


@given(limits, contexts, contexts)
def test_pop_undoes_push_to_the_last_cell(longest: int, kept: list[int], undone: list[int]) -> None:
    automaton, fresh = SuffixAutomaton(longest), SuffixAutomaton(longest)
    for token in kept + undone:
        automaton.push(token)
    for _ in undone:
        automaton.pop()
    for token in kept:
        fresh.push(token)
    crowds = {state: edges for state, edges in vars(automaton).pop("_crowds").items() if len(edges) >= 8}
    assert crowds == vars(fresh).pop("_crowds")
    assert vars(automaton) == vars(fresh)


@given(st.lists(st.integers(0, 2), max_size=40))
def test_the_automaton_stays_small(context: list[int]) -> None:
    automaton = SuffixAutomaton()
    for token in context:
        automaton.push(token)
    n = max(len(context), 2)
    assert len(automaton._length) <= 2 * n
    assert len(automaton._token) <= 3 * n


def test_nothing_is_proposed_without_a_match() -> None:
    assert draft(Suffix(), []) == draft(Suffix(), [1, 2, 3]) == Draft(source="suffix")


def test_a_long_match_is_continued_to_the_limit() -> None:
    text = list(range(100))
    assert draft(Suffix(), text + text[:20], 31).tokens == tuple(range(20, 51))


def test_a_repetition_goes_on_past_the_present() -> None:
    assert draft(Suffix(), [1, 2, 3] * 10, 8).tokens == (1, 2, 3, 1, 2, 3, 1, 2)


def test_the_most_frequent_continuation_beats_the_latest() -> None:
    assert draft(Suffix(), [1, 2, 3, 9, 1, 2, 3, 8, 1, 2, 4, 7, 1, 2], 1).tokens == (3,)


def test_of_two_equally_frequent_continuations_the_latest_wins() -> None:
    assert draft(Suffix(), [1, 2, 3, 9, 1, 2, 4, 7, 1, 2], 1).tokens == (4,)


def test_a_longer_context_overrules_a_frequent_one() -> None:
    often = [5, 2, 3, 6, 2, 3, 7, 2, 3]
    assert draft(Suffix(), [*often, 1, 2, 4, 8, 1, 2], 1).tokens == (4,)


def test_a_draft_is_longer_where_the_match_is() -> None:
    def tokens(match: int) -> int:
        copied = list(range(100, 100 + match))
        return len(draft(Suffix(), [*copied, *range(50), *copied], 31).tokens)

    lengths = [tokens(match) for match in (1, 2, 4, 16)]
    assert lengths == sorted(set(lengths))


def test_a_draft_ends_where_the_continuations_part() -> None:
    either = [[1, 2, 3, 4, *end] for end in ([5], [6], [7], [8])]
    context = [token for part in either for token in (*part, 0)] + [1, 2]
    assert draft(Suffix(), context).tokens == (3, 4)


def test_evidence_grows_with_the_match_and_with_agreement() -> None:
    def evidence(*context: int) -> int:
        return draft(Suffix(), context).evidence

    assert evidence(1, 9, 1) < evidence(1, 2, 9, 1, 2) < evidence(*range(30), *range(16))
    assert evidence(1, 2, 9, 1, 2, 9, 1, 2, 8, 1, 2) < evidence(1, 2, 9, 1, 2, 9, 1, 2, 9, 1, 2)


def english(n: int) -> list[int]:
    """Word-like: a few tokens are frequent, phrases come back."""
    rng = np.random.default_rng(1)
    phrases = [rng.zipf(1.3, size=rng.integers(2, 12)) % 5000 for _ in range(n // 20)]
    picked = rng.zipf(1.2, size=n) % len(phrases)
    return np.concatenate([phrases[i] for i in picked])[:n].tolist()


TEXTS = {
    "words": english(12000),
    "random": np.random.default_rng(2).integers(0, 50000, 12000).tolist(),
    "random letters": np.random.default_rng(3).integers(0, 3, 12000).tolist(),
    "one letter": [7] * 12000,
    "a b b b ...": [1] + [2] * 6000 + [3] + [2] * 5998,
}


@pytest.mark.parametrize("name", TEXTS)
def test_memory_is_at_most_400_bytes_per_token(name: str) -> None:
    drafter, context = Suffix(), np.asarray(TEXTS[name], np.int32)
    tracemalloc.start()
    draft(drafter, context)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used <= 400 * len(context)
