"""The probe finds the widest batch whose logits are those of single rows, whatever the backend does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from localspec.spec.numerics import DEEP, LONG, WIDTHS, both_ways, difference, probe
from localspec.spec.types import Logits, Tokens
from tests.conftest import Load, Models
from tests.fakes import FakeModel, noise

V = 20
Kernel = Callable[
    [int, int], float
]  # (rows of the batch, tokens in the cache before it) -> what it adds to a logit


class Rounding(FakeModel):
    """A backend whose logits depend on how many rows are decoded together."""

    def __init__(self, kernel: Kernel, *, rewinds: bool = True, n_ctx: int = 2048) -> None:
        super().__init__(noise(V), V, n_ctx=n_ctx, n_batch=512, rewinds=rewinds)
        self._kernel = kernel

    def decode(self, tokens: Tokens, *, rows: int) -> Logits:
        before = len(self.cached)
        logits = super().decode(tokens, rows=rows)
        logits.setflags(write=True)
        if rows:
            logits[-1, 3] += np.float32(self._kernel(len(tokens), before))
        logits.setflags(write=False)
        return logits


def always_alike(rows: int, before: int) -> float:
    return 0.0


def from_five_rows_on(rows: int, before: int) -> float:
    return 0.25 if rows >= 5 else 0.0


def alone_or_not(rows: int, before: int) -> float:
    return 0.5 if rows == 1 else 0.0


def alone_in_a_long_text(rows: int, before: int) -> float:
    return 0.125 if rows == 1 and before >= 512 else 0.0


@pytest.mark.parametrize(
    ("kernel", "quick", "deep"),
    [
        (always_alike, (9, 0.0), (32, 0.0)),
        (from_five_rows_on, (2, 0.25), (4, 0.25)),
        (alone_or_not, (1, 0.5), (1, 0.5)),
        (alone_in_a_long_text, (9, 0.0), (1, 0.125)),
    ],
)
def test_the_widest_batch_is_found(kernel: Kernel, quick: tuple[int, float], deep: tuple[int, float]) -> None:
    found = probe(Rounding(kernel))
    assert (found.widest, found.noise) == pytest.approx(quick)
    found = probe(Rounding(kernel), deep=True)
    assert (found.widest, found.noise) == pytest.approx(deep)


def test_it_says_what_was_tested() -> None:
    assert probe(Rounding(always_alike)).tested == WIDTHS
    assert probe(Rounding(from_five_rows_on)).tested == (2, 5)
    deep = probe(Rounding(always_alike), deep=True)
    assert (deep.tested, deep.context) == (DEEP, LONG)
    assert str(deep) == "bit-identical up to 32 rows, as far as tested (measured after 600 tokens)"
    assert "up to 2 rows, beyond that logits differ by 0.25" in str(probe(Rounding(from_five_rows_on)))
    assert "differ by up to 0.5 between one row and several" in str(probe(Rounding(alone_or_not)))


def test_the_cache_is_empty_afterwards() -> None:
    model = Rounding(always_alike)
    probe(model, deep=True)
    assert len(model.cached) == 0


def test_a_cache_that_can_not_be_cut_is_read_again() -> None:
    assert probe(Rounding(from_five_rows_on, rewinds=False)).widest == 2


def test_nothing_wider_than_the_model_allows_is_tried() -> None:
    model = FakeModel(noise(V), V, max_rows=6, n_batch=64)
    assert probe(model).tested == (2, 5)
    assert max(rows for _, rows in model.decodes) <= 6
    small = FakeModel(noise(V), V, n_ctx=40)
    assert probe(small, deep=True).tested == (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 20, 24)


def test_a_block_is_compared_where_it_stands() -> None:
    model = Rounding(alone_or_not)
    single, batch = both_ways(model, [1, 2, 3], [4, 5])
    assert difference(single, batch) == pytest.approx(0.5)
    plain = FakeModel(noise(V), V)
    plain.decode([1, 2, 3, 4, 5], rows=0)
    plain.rewind(3)
    assert np.array_equal(batch[0], plain.decode([4], rows=1)[0])


def test_equal_infinities_are_no_difference() -> None:
    a = np.array([[-np.inf, 1.0]], np.float32)
    assert difference(a, a.copy()) == 0.0
    assert difference(a, np.array([[-np.inf, 1.5]], np.float32)) == 0.5


def test_on_llama_cpp_the_defaults_for_a_processor_are_identical(load: Load, models: Models) -> None:
    found = probe(load(models("noise_q8")), deep=True)
    assert (found.widest, found.noise) == (32, 0.0)


def test_on_llama_cpp_float_weights_differ_between_one_row_and_several(load: Load, noise: str) -> None:
    found = probe(load(noise))
    assert found.widest == 1
    assert 0 < found.noise < 1e-4


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_on_llama_cpp_a_single_row_in_a_long_text_takes_another_path(load: Load, models: Models, kind: str) -> None:
    options = {"n_ctx": 1024, "threads": 2, "flash_attn": "on", "cache_type_k": kind, "cache_type_v": kind}
    model = load(models("noise_q8"), **options)
    assert probe(model).widest == 9
    deep = probe(model, deep=True)
    assert (deep.widest, deep.context) == (1, LONG)
