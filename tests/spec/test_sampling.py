"""Filters, penalties and edge rows against a slow reference that follows the definitions to the letter."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import exp, inf, log, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from localspec.errors import ModelError, SamplingError
from localspec.spec.distribution import Distribution
from localspec.spec.sampling import LazyRows, distribution
from localspec.spec.settings import SEED_MAX, Sampling
from localspec.spec.types import Token

OPEN = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)
"""No filter at all."""


def transformed(row: Any, history: list[Token], s: Sampling) -> list[tuple[float, Token]]:
    """(logit, token) after bias, bans and penalties, best first, equal logits by id."""
    bias = dict(s.logit_bias)
    reach = len(history) if s.penalty_last_n < 0 else min(s.penalty_last_n, len(history))
    counts = Counter(history[len(history) - reach :])
    logits = []
    for token, value in enumerate(row):
        logit = float(value) + bias.get(token, 0.0)
        if token in s.banned:
            logit = -inf
        if counts[token]:
            logit = logit / s.repeat_penalty if logit > 0 else logit * s.repeat_penalty
            logit -= counts[token] * s.frequency_penalty + s.presence_penalty
        logits.append((logit, token))
    return sorted(logits, key=lambda pair: (-pair[0], pair[1]))


def softmax(logits: list[float]) -> list[float]:
    highest = max(logits)
    weights = [exp(logit - highest) for logit in logits]
    total = sum(weights)
    return [weight / total for weight in weights]


def reference(row: Any, history: list[Token], s: Sampling, slack: tuple[float, float]) -> dict[Token, float]:
    """The definition. `slack` moves the cuts of top-p and min-p, where rounding may decide."""
    best = transformed(row, history, s)
    if s.temperature == 0:
        return {best[0][1]: 1.0}
    if s.top_k:
        best = best[: s.top_k]
    mass = 0.0
    kept: list[tuple[float, Token]] = []
    for pair, p in zip(best, softmax([logit for logit, _ in best]), strict=True):
        if mass >= s.top_p + slack[0] and kept:
            break
        mass += p
        kept.append(pair)
    if s.min_p:
        kept = kept[:1] + [pair for pair in kept[1:] if pair[0] >= kept[0][0] + log(s.min_p) + slack[1]]
    probabilities = softmax([(logit - kept[0][0]) / s.temperature for logit, _ in kept])
    return dict(zip([token for _, token in kept], probabilities, strict=True))


def as_dict(found: Distribution) -> dict[Token, float]:
    ids = range(found.probs.size) if found.ids is None else found.ids.tolist()
    return dict(zip(ids, found.probs.tolist(), strict=True))


CUTS = [(1e-7, 1e-7), (1e-7, -1e-7), (-1e-7, 1e-7), (-1e-7, -1e-7)]


def assert_is_the_definition(row: Any, history: list[Token], s: Sampling) -> None:
    distributed = distribution(row, history, s)
    found = as_dict(distributed)
    either = (reference(row, history, s, slack) for slack in CUTS)
    wanted = next((wanted for wanted in either if set(wanted) == set(found)), reference(row, history, s, (0, 0)))
    if distributed.ids is None:
        wanted = dict(sorted(wanted.items()))
    assert list(found) == list(wanted), "best first where truncated"
    assert np.abs(distributed.probs - [*wanted.values()]).max() < 1e-6
    assert sum(found.values()) == pytest.approx(1, abs=1e-12)


samplings = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, 1, 2, 3, 5, 40, 10**6]),
    top_p=st.sampled_from([0.05, 0.5, 0.75, 0.95, 1.0]),
    min_p=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    repeat_penalty=st.sampled_from([0.5, 1.0, 1.25, 2.0]),
    presence_penalty=st.sampled_from([-1.5, 0.0, 0.5]),
    frequency_penalty=st.sampled_from([-0.25, 0.0, 0.75]),
    penalty_last_n=st.sampled_from([-1, 0, 1, 3, 64]),
    logit_bias=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([-2.0, 3.0, -inf])), max_size=2, unique_by=lambda pair: pair[0]
    ).map(tuple),
    banned=st.sets(st.integers(4, 5), max_size=2).map(tuple),
)
# Small whole numbers give ties; -inf comes from masks in the model itself.
logits = st.lists(
    st.one_of(st.integers(-3, 3).map(float), st.floats(-20, 20, width=32), st.just(-inf)), min_size=6, max_size=24
)
histories = st.lists(st.integers(0, 5), max_size=12)


@given(row=logits, history=histories, s=samplings)
@settings(max_examples=500)
def test_a_short_row_is_transformed_as_defined(row: list[float], history: list[Token], s: Sampling) -> None:
    always_possible = 1.0
    assert_is_the_definition(np.array([*row, always_possible], np.float32), history, s)


@pytest.mark.parametrize("n_vocab", [700, 5000, 5120])
@pytest.mark.parametrize("shape", ["flat", "peaked", "rounded", "equal", "masked", "descending", "ascending"])
@pytest.mark.parametrize(
    "s",
    [
        Sampling(0.8, 5),
        Sampling(0.7, 9, 0.95, 0),
        Sampling(1, 0, 0.9, 0),
        Sampling(1, 0, 1, 0.1),
        Sampling(1, 0, 0.99, 0.01),
        Sampling(1, 600, 1, 0),
        OPEN,
        Sampling(0),
        Sampling(0.7, 9, 0.95, 0, 1.1, 0.2, 0.1),
    ],
    ids=str,
)
def test_a_long_row_is_transformed_as_defined(s: Sampling, shape: str, n_vocab: int) -> None:
    """Shorter and longer than what is searched by blocks, with and without a short last block."""
    normal = default_rng(n_vocab).standard_normal(n_vocab)
    row = {
        "flat": normal,
        "peaked": 4 * normal,
        "rounded": np.round(3 * normal),
        "equal": np.full(n_vocab, 1.5),
        "masked": np.where(np.arange(n_vocab) % 100 == 99, normal, -inf),
        "descending": -0.01 * np.arange(n_vocab),
        "ascending": 0.01 * np.arange(n_vocab),
    }[shape].astype(np.float32)
    assert_is_the_definition(row, [5, 9, 9, n_vocab - 1], s)


@pytest.mark.parametrize("n_vocab", [10, 5000])
def test_ties_go_to_the_lower_id(n_vocab: int) -> None:
    row = np.zeros(n_vocab, np.float32)
    assert as_dict(distribution(row, [], Sampling(1, 3, 1, 0))) == pytest.approx({0: 1 / 3, 1: 1 / 3, 2: 1 / 3})
    assert as_dict(distribution(row, [], Sampling(0))) == {0: 1.0}
    row[n_vocab - 3 :] = 1
    assert list(as_dict(distribution(row, [], Sampling(1, 4, 1, 0)))) == [n_vocab - 3, n_vocab - 2, n_vocab - 1, 0]


def test_a_cut_that_is_met_exactly_is_met() -> None:
    row = np.array([0, 2, 2, 2, 2, 0], np.float32)
    assert list(as_dict(distribution(row, [], Sampling(1, 4, 0.5, 0)))) == [1, 2]
    assert list(as_dict(distribution(row, [], Sampling(1, 0, 1, 1.0)))) == [1, 2, 3, 4]


@pytest.mark.parametrize("s", [Sampling(), OPEN, Sampling(0), Sampling(1, 0, 0.9, 0)])
@pytest.mark.parametrize("n_vocab", [1, 8, 5000])
def test_a_single_possible_token_is_certain(s: Sampling, n_vocab: int) -> None:
    row = np.full(n_vocab, -inf, np.float32)
    row[n_vocab // 2] = -3
    assert distribution(row, [], s).prob(n_vocab // 2) == 1.0


@pytest.mark.parametrize("s", [Sampling(), OPEN, Sampling(0), Sampling(1, 0, 0.9, 0), Sampling(1, 0, 1, 0.1)])
@pytest.mark.parametrize("n_vocab", [7, 999, 70_000])
@pytest.mark.parametrize("value", [nan, inf])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_a_damaged_row_is_an_error_wherever_the_damage_is(
    s: Sampling, n_vocab: int, value: float, place: str
) -> None:
    row = default_rng(0).standard_normal(n_vocab).astype(np.float32)
    row[{"first": 0, "middle": n_vocab // 2, "last": n_vocab - 1}[place]] = value
    with pytest.raises(ModelError, match="NaN or infinite logits"):
        distribution(row, [], s)


@pytest.mark.parametrize("s", [Sampling(), OPEN, Sampling(0), Sampling(1, 0, 0.9, 0)])
@pytest.mark.parametrize("n_vocab", [4, 5000])
def test_a_row_without_any_possible_token_is_an_error(s: Sampling, n_vocab: int) -> None:
    with pytest.raises(ModelError, match="No token is possible"):
        distribution(np.full(n_vocab, -inf, np.float32), [], s)


def test_banning_every_token_is_an_error_that_names_the_flags() -> None:
    with pytest.raises(ModelError) as caught:
        distribution(np.zeros(4, np.float32), [], Sampling(banned=(0, 1, 2, 3)))
    assert "--ban-token" in caught.value.hint


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("temperature", [1e-310, 1e-6, 100])
@pytest.mark.parametrize("s", [Sampling(), OPEN])
def test_extreme_temperatures_are_quiet(s: Sampling, temperature: float) -> None:
    row = np.array([3, 1, 3, -30, -inf], np.float32)
    found = distribution(row, [], replace(s, temperature=temperature, min_p=0))
    assert found.prob(0) == found.prob(2)
    assert (found.prob(0) == 0.5) == (temperature < 1)


def test_the_models_own_row_is_never_written_to() -> None:
    row = default_rng(0).standard_normal(5000).astype(np.float32)
    row.setflags(write=False)
    busy = Sampling(1, 0, 0.9, 0.1, 1.3, 0.1, 0.1, logit_bias=((3, 2.0),), banned=(4,))
    for s in (busy, OPEN, Sampling(0, repeat_penalty=2.0)):
        distribution(row, [1, 2, 3], s)


# Penalties and what they count


def test_the_window_reaches_back_into_the_prompt() -> None:
    row, history = np.array([2, 2, 2], np.float32), [0, 1, 1]
    presence = replace(OPEN, temperature=0, presence_penalty=1)
    winners = {n: distribution(row, history, replace(presence, penalty_last_n=n)) for n in (0, 2, 3, -1)}
    assert {n: found.prob(0) for n, found in winners.items()} == {0: 1, 2: 1, 3: 0, -1: 0}
    assert winners[3].prob(2) == 1


def test_rows_of_a_block_count_the_drafted_tokens_before_them() -> None:
    """The same row at every place: it becomes what plain decoding would see after the same tokens."""
    row = default_rng(1).standard_normal(9).astype(np.float32)
    history, drafted = [3, 4, 5], (1, 1, 7)
    s = Sampling(0.9, 0, 1, 0, 1.5, 0.3, 0.2, penalty_last_n=4)
    rows = LazyRows(np.tile(row, (4, 1)), np.array(history), drafted, s)
    for i in (3, 0, 2, 1):
        plain = distribution(row, [*history, *drafted[:i]], s)
        assert (rows[i].probs == plain.probs).all()
    assert (rows[3].probs != rows[2].probs).any()


# What is refused


@pytest.mark.parametrize(
    ("field", "value", "flag", "range"),
    [
        ("temperature", -0.1, "--temperature", "at least 0 and at most 100"),
        ("temperature", nan, "--temperature", "at least 0"),
        ("temperature", inf, "--temperature", "at most 100"),
        ("temperature", 1e9, "--temperature", "at most 100"),
        ("top_k", -1, "--top-k", "at least 0"),
        ("top_p", 0.0, "--top-p", "above 0 and at most 1"),
        ("top_p", 1.01, "--top-p", "at most 1"),
        ("min_p", -0.5, "--min-p", "at least 0 and at most 1"),
        ("min_p", 1.5, "--min-p", "at most 1"),
        ("repeat_penalty", 0.0, "--repeat-penalty", "above 0"),
        ("presence_penalty", nan, "--presence-penalty", "at least -100"),
        ("frequency_penalty", 101, "--frequency-penalty", "at most 100"),
        ("penalty_last_n", -2, "--penalty-last-n", "at least -1"),
        ("seed", -1, "--seed", "at least 0"),
        ("seed", SEED_MAX + 1, "--seed", "at most 9223372036854775807"),
        ("logit_bias", ((3, nan),), "--logit-bias", "at least -inf"),
        ("logit_bias", ((3, inf),), "--logit-bias", "at most 1000"),
        ("logit_bias", ((-1, 1.0),), "The token of --logit-bias", "at least 0"),
        ("banned", (-5,), "--ban-token", "at least 0"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_its_flag(field: str, value: Any, flag: str, range: str) -> None:
    with pytest.raises(SamplingError) as caught:
        Sampling(**{field: value})
    assert caught.value.message.startswith(flag)
    assert range in caught.value.hint
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("changes", [{"top_k": 0}, {"top_k": 1}, {"top_p": 1.0}, {"seed": 0}, {"seed": SEED_MAX}])
def test_the_ends_of_the_ranges_are_allowed(changes: dict[str, Any]) -> None:
    distribution(np.zeros(4, np.float32), [], Sampling(**changes))


@pytest.mark.parametrize(
    ("s", "flag"),
    [(Sampling(logit_bias=((50, 1.0),)), "--logit-bias"), (Sampling(banned=(2, 50)), "--ban-token")],
)
def test_a_token_outside_the_vocabulary_is_refused(s: Sampling, flag: str) -> None:
    s.check(51)
    with pytest.raises(SamplingError, match=f"{flag}.*50") as caught:
        s.check(50)
    assert "at most 49" in caught.value.hint
