"""The same rows through llama.cpp's own sampler chain: the same tokens stay, with the same probabilities."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import llama_cpp as lc
import numpy as np
import pytest
from numpy.random import default_rng

from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling

V = 3000
HISTORY = [7, 12, 12, 99, 12, 7, 1500, 2, 40, 41]
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


@contextmanager
def chain(s: Sampling, history: list[int]) -> Iterator[Any]:
    """llama.cpp's default order, without the samplers that this product does not have."""
    biases = [*s.logit_bias, *((token, -np.inf) for token in s.banned)]
    samplers = lc.llama_sampler_chain_init(lc.llama_sampler_chain_default_params())
    entries = (lc.llama_logit_bias * len(biases))(*(lc.llama_logit_bias(*bias) for bias in biases))
    for sampler in (
        lc.llama_sampler_init_logit_bias(V, len(biases), entries),
        lc.llama_sampler_init_penalties(
            V, s.penalty_last_n, s.repeat_penalty, s.frequency_penalty, s.presence_penalty
        ),
        lc.llama_sampler_init_top_k(s.top_k),
        lc.llama_sampler_init_top_p(s.top_p, 0),
        lc.llama_sampler_init_min_p(s.min_p, 0),
        lc.llama_sampler_init_temp(s.temperature),
    ):
        lc.llama_sampler_chain_add(samplers, sampler)
    for token in history:
        lc.llama_sampler_accept(samplers, token)
    yield samplers
    lc.llama_sampler_free(samplers)


def theirs(row: Any, history: list[int], s: Sampling) -> dict[int, float]:
    candidates = np.zeros(V, CANDIDATE)
    candidates["id"], candidates["logit"] = np.arange(V), row
    array = lc.llama_token_data_array(candidates.ctypes.data_as(ctypes.POINTER(lc.llama_token_data)), V, -1, False)
    with chain(s, history) as samplers:
        lc.llama_sampler_apply(samplers, ctypes.byref(array))
    start = ctypes.cast(array.data, ctypes.c_void_p).value
    assert start == candidates.ctypes.data
    kept = candidates[: array.size]
    weights = np.exp(kept["logit"].astype(np.float64) - kept["logit"].max())
    probabilities = weights / weights.sum()
    return {int(i): float(p) for i, p in zip(kept["id"], probabilities, strict=True) if p > 0}


@pytest.mark.parametrize(
    "s",
    [
        Sampling(),
        Sampling(0),
        Sampling(0.7, 40, 0.95, 0),
        Sampling(1.3, 0, 0.9, 0),
        Sampling(1, 0, 1, 0.02),
        Sampling(1, 0, 1, 0),
        Sampling(0.9, 200, 0.8, 0.01),
        Sampling(0.8, 40, 0.95, 0, repeat_penalty=1.3),
        Sampling(0.8, 40, 0.95, 0, presence_penalty=0.8, frequency_penalty=0.4),
        Sampling(
            0.8, 40, 0.95, 0, repeat_penalty=1.3, presence_penalty=-0.5, frequency_penalty=0.2, penalty_last_n=4
        ),
        Sampling(0.8, 0, 1, 0, repeat_penalty=1.3, penalty_last_n=0),
        Sampling(0.8, 40, 0.95, 0, logit_bias=((5, 9.0), (12, -3.0)), banned=(7,), repeat_penalty=1.1),
    ],
    ids=str,
)
def test_the_same_tokens_stay_with_the_same_probabilities(s: Sampling) -> None:
    for seed in range(20):
        row = (3 * default_rng(seed).standard_normal(V)).astype(np.float32)
        ours = distribution(row, HISTORY, s)
        ids = range(V) if ours.ids is None else ours.ids.tolist()
        found = {i: p for i, p in zip(ids, ours.probs.tolist(), strict=True)}
        assert found == pytest.approx(theirs(row, HISTORY, s), abs=1e-5)


def test_a_masked_row() -> None:
    row = np.full(V, -np.inf, np.float32)
    row[[3, 9, 11]] = 1, 2, 1
    found = distribution(row, [], Sampling(0.8, 40, 0.95, 0))
    kept = {i: found.prob(i) for i in (3, 9, 11)}
    assert kept == pytest.approx(theirs(row, [], Sampling(0.8, 40, 0.95, 0)), abs=1e-5)
