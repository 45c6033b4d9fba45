"""Prompt lookup against a search of the whole context for every draft."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import default_rng

from localspec.spec.drafters.lookup import Lookup
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Tokens


def draft(drafter: Lookup, context: Tokens, limit: int = 8) -> Draft:
    return drafter.draft(np.asarray(context, np.int32), limit, Sampling(), default_rng(0))


def proposed(context: Sequence[int], limit: int = 8) -> list[int]:
    return list(draft(Lookup(), context, limit).tokens)


def reference(context: list[int], limit: int) -> list[int]:
    """The continuation of the longest end that stood before, at least a pair; of equally long ones the latest."""
    for length in range(min(32, len(context) - 1), 1, -1):
        for start in range(len(context) - length - 1, -1, -1):
            if context[start : start + length] == context[-length:]:
                text = list(context)
                for i in range(limit):
                    text.append(text[start + length + i])
                return text[len(context) :]
    return []


contexts = st.lists(st.integers(0, 2), max_size=60) | st.lists(st.integers(0, 12), max_size=100)


def test_the_longest_match_wins_over_a_later_shorter_one() -> None:
    assert proposed([1, 2, 3, 4, 9, 2, 3, 5, 8, 1, 2, 3], 2) == [4, 9]


def test_the_latest_of_equally_long_matches_wins() -> None:
    assert proposed([2, 3, 4, 9, 2, 3, 5, 8, 2, 3], 2) == [5, 8]


def test_a_single_token_is_no_match() -> None:
    assert proposed([1, 2, 3, 1]) == []
    assert proposed([]) == proposed([1]) == proposed([1, 1]) == []


def test_a_match_that_runs_into_the_present_repeats_itself() -> None:
    assert proposed([7, 1, 2, 3, 1, 2, 3, 1, 2], 7) == [3, 1, 2, 3, 1, 2, 3]
    assert proposed([4, 4, 4], 3) == [4, 4, 4]


@given(contexts, st.integers(0, 12))
def test_drafts_are_those_of_the_definition(context: list[int], limit: int) -> None:
    assert proposed(context, limit) == reference(context, limit)


@given(st.lists(st.tuples(st.integers(0, 60), contexts), max_size=10))
def test_following_appends_cuts_and_edits_equals_a_fresh_start(steps: list[tuple[int, list[int]]]) -> None:
    drafter, context = Lookup(), list[int]()
    for keep, more in steps:
        context = [*context[:keep], *more]
        assert draft(drafter, context) == draft(Lookup(), context)


def test_drafts_are_certain_and_say_how_long_the_match_was() -> None:
    found = draft(Lookup(), [1, 2, 3, 4, 5, 9, 1, 2, 3, 4, 5])
    assert found.probs is None
    assert found.source == "lookup"
    assert found.evidence > draft(Lookup(), [4, 5, 9, 4, 5]).evidence > 0


@pytest.mark.parametrize(
    "text", [default_rng(0).integers(0, 150_000, 32_768), [5, 6] * 16_384], ids=["random", "a b a b"]
)
def test_memory_is_at_most_400_bytes_per_token(text: list[int]) -> None:
    """Every pair is a new one in the first text, the same in the second."""
    drafter = Lookup()
    context = np.asarray(text, np.int32)
    tracemalloc.start()
    draft(drafter, context)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 32 * context.size < used < 400 * context.size


def test_a_round_looks_at_a_bounded_number_of_places() -> None:
    """Thousands of candidates in a text of three words. Reads are counted, not seconds."""

    class Counting(list[int]):
        reads = 0

        def __getitem__(self, i):  # type: ignore[no-untyped-def]
            self.reads += 1
            return super().__getitem__(i)

    drafter = Lookup()
    context = default_rng(0).integers(0, 3, 32_768).astype(np.int32)
    draft(drafter, context)
    drafter._tokens = Counting(drafter._tokens)
    draft(drafter, context)
    assert 0 < drafter._tokens.reads < 1000
