"""Cutting a plain cache never corrupts: after any sequence of cuts the logits are those of a fresh evaluation, to the
bit. Other caches are in test_memory_classes.py."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.errors import CannotRewind
from localspec.llama.model import LlamaModel
from localspec.llama.native import lc
from tests.conftest import Load, Models

TEXT = np.random.default_rng(11).integers(3, 260, size=200).tolist()


class Fresh:
    """What the model says after a prefix that it has just read from the beginning, token by token."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._known: dict[tuple[int, ...], np.ndarray] = {}

    def __call__(self, prefix: tuple[int, ...]) -> np.ndarray:
        if prefix not in self._known:
            self._model.rewind(0)
            for i, token in enumerate(prefix):
                self._known[prefix[: i + 1]] = self._model.decode([token], rows=1)[0].copy()
        return self._known[prefix]


@pytest.mark.parametrize("name", ["noise_q8", "window_q8"])
def test_random_cuts_and_blocks_give_the_logits_of_a_fresh_evaluation(
    models: Models, load: Load, name: str
) -> None:
    """The window is 16 tokens and its cache of full size: cuts far behind the window must be right as well."""
    rng = np.random.default_rng(5)
    model, fresh = load(models(name)), Fresh(load(models(name)))
    assert model.info.rollback == "PART" and model.speculation_off is None
    truth: list[int] = []
    for _ in range(60):
        if truth and rng.random() < 0.6:
            # Mostly the short cut after a rejected draft, sometimes the deep one of an edited message.
            back = int(rng.integers(0, 10 if rng.random() < 0.7 else len(truth) + 1))
            truth = truth[: max(0, len(truth) - back)]
            assert model.reusable(len(truth)) == len(truth)
            model.rewind(len(truth))
            assert model.cached.tolist() == truth
        block = rng.integers(3, 6, size=int(rng.integers(1, 10))).tolist()  # few tokens: prefixes come again
        if len(truth) + len(block) > 120:
            continue
        rows = model.decode(block, rows=len(block))
        for i, row in enumerate(rows):
            assert np.array_equal(row, fresh((*truth, *block[: i + 1])))
        truth += block
    assert model.cached.tolist() == truth


class TestLies:
    """llama.cpp may say that it removed tokens and mean something else."""

    def test_a_refused_removal_clears_and_says_so(
        self, noise: str, load: Load, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = load(noise)
        model.decode(TEXT[:10], rows=1)
        with monkeypatch.context() as broken:
            broken.setattr(lc, "llama_memory_seq_rm", lambda *_: False)
            with pytest.raises(CannotRewind, match="lost the cache"):
                model.rewind(5)
        assert model.cached.tolist() == []
        assert np.array_equal(model.decode(TEXT[:10], rows=1), load(noise).decode(TEXT[:10], rows=1))

    def test_a_removal_that_took_too_much_is_noticed(
        self, noise: str, load: Load, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model, real = load(noise), lc.llama_memory_seq_rm
        model.decode(TEXT[:10], rows=1)
        with monkeypatch.context() as broken:
            broken.setattr(lc, "llama_memory_seq_rm", lambda memory, *_: real(memory, 0, 0, -1))
            with pytest.raises(CannotRewind, match="lost the cache"):
                model.rewind(5)
        assert model.cached.tolist() == []


def test_probing_leaves_an_empty_cache(models: Models, load: Load) -> None:
    for name in ("noise", "recur", "hybrid", "window"):
        assert load(models(name)).cached.tolist() == []
