"""Caches that can't be cut: whatever is taken back, the logits that follow are those of a fresh evaluation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from localspec.errors import CannotRewind
from localspec.llama import checkpoints, memory
from localspec.llama import load as loading
from localspec.llama.checkpoints import Checkpoint, Ring
from localspec.llama.memory import REPLAY
from localspec.llama.model import LlamaModel
from localspec.llama.native import lc
from tests.conftest import Load, Models

TEXT = np.random.default_rng(11).integers(3, 260, size=900).tolist()


@dataclass(frozen=True)
class Kind:
    """A cache class on a tiny model. `tolerance` is for logits of about 7 where the model's own arithmetic depends on
    the width of a batch; a state that is one token off is wrong by more than 1."""

    model: str
    rollback: str
    tolerance: float
    longest: int = 8
    snapshots: int | None = None
    options: dict[str, Any] = field(default_factory=dict)


F32 = {"cache_type_k": "f32", "cache_type_v": "f32"}
KINDS = {
    "recurrent": Kind("recur", "FULL", 1e-4),
    "hybrid": Kind("hybrid", "RS", 1e-3, options=F32),
    "hybrid, long drafts": Kind("hybrid", "RS", 1e-3, longest=14, options=F32),
    "hybrid without snapshots": Kind("hybrid", "FULL", 1e-3, snapshots=0, options=F32),
    "window": Kind("window_q8", "SWA", 0.0, options={"swa_full": False}),
}
Opener = Callable[[], LlamaModel]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def fresh(kind: Kind, models: Models, load: Load, monkeypatch: pytest.MonkeyPatch) -> Opener:
    if kind.snapshots is not None:
        monkeypatch.setattr(loading, "SNAPSHOTS", kind.snapshots)

    def open_one() -> LlamaModel:
        model = load(models(kind.model), n_ctx=1024, **kind.options)
        assert model.info.rollback == kind.rollback and model.speculation_off is None
        return model

    return open_one


class Truth:
    """What the model says after a prefix: read token by token, from the beginning unless it continues the last one."""

    def __init__(self, model: LlamaModel) -> None:
        self._model = model
        self._row = np.empty(0)

    def __call__(self, prefix: list[int]) -> np.ndarray:
        if self._model.cached.tolist() != prefix[: len(self._model.cached)]:
            self._model.rewind(0)
        for token in prefix[len(self._model.cached) :]:
            self._row = self._model.decode([token], rows=1)[0].copy()
        return self._row


def read(model: LlamaModel, text: list[int], chunk: int = 60) -> None:
    """As a prompt is read: what is left of the cache, then chunks without logits."""
    length = len(text)
    while True:
        try:
            model.rewind(min(length, common(model, text)))
            break
        except CannotRewind as refused:
            length = refused.reachable
    for start in range(len(model.cached), len(text), chunk):
        model.decode(text[start : start + chunk], rows=0)
    assert model.cached.tolist() == text


def common(model: LlamaModel, text: list[int]) -> int:
    pairs = zip(model.cached.tolist(), text, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(model.cached), len(text)))


def test_random_rejections_and_edits_give_the_logits_of_a_fresh_evaluation(kind: Kind, fresh: Opener) -> None:
    """A chat: prompts, rounds with any number of accepted tokens, edits of the last message and of earlier ones."""
    rng = np.random.default_rng(5)
    model, truth = fresh(), Truth(fresh())
    text: list[int] = []
    for turn in range(7):
        if turn % 3 == 2:
            text = text[: int(rng.integers(len(text) // 3, len(text)))]
        text += rng.integers(3, 260, size=int(rng.integers(5, 70))).tolist()
        read(model, text[:-1])
        last = text.pop()
        for _ in range(int(rng.integers(3, 9))):
            k = int(rng.integers(0, kind.longest + 1))
            accepted = int(rng.integers(0, k + 1))
            block = [last, *rng.integers(3, 260, size=k).tolist()]
            rows = model.decode(block, rows=len(block))[: accepted + 1].copy()
            for i, row in enumerate(rows):
                expected = truth([*text, *block[: i + 1]])
                assert np.abs(row - expected).max() <= kind.tolerance, (turn, k, accepted, i)
            text += block[: accepted + 1]
            model.rewind(len(text))
            assert model.cached.tolist() == text
            last = int(rng.integers(3, 260))


def test_a_prompt_that_was_stopped_and_a_block_that_was_never_judged(kind: Kind, fresh: Opener) -> None:
    model, truth = fresh(), Truth(fresh())
    read(model, TEXT[:50])
    model.decode(TEXT[50:58], rows=8)  # an exception came before the verdict
    read(model, TEXT[:53])
    row = model.decode([9], rows=1)[0]
    assert np.abs(row - truth([*TEXT[:53], 9])).max() <= kind.tolerance
    read(model, [*TEXT[:53], 9, *TEXT[100:160]])  # stopped in the middle of a prompt; another one comes
    read(model, [*TEXT[:53], 9, *TEXT[100:130], *TEXT[300:310]])
    row = model.decode([9], rows=1)[0]
    assert np.abs(row - truth([*TEXT[:53], 9, *TEXT[100:130], *TEXT[300:310], 9])).max() <= kind.tolerance


def test_two_steps_back_in_a_row(kind: Kind, fresh: Opener) -> None:
    """Recurrent snapshots can be used once; a stop string cuts the answer after the verdict did."""
    model, truth = fresh(), Truth(fresh())
    read(model, TEXT[:40])
    model.decode(TEXT[40:49], rows=9)
    for length in (46, 43, 41):
        model.rewind(length)
        assert model.cached.tolist() == TEXT[:length]
    row = model.decode([9], rows=1)[0]
    assert np.abs(row - truth([*TEXT[:41], 9])).max() <= kind.tolerance


def test_what_is_reusable_can_be_reached_and_what_is_not_is_refused_unharmed(kind: Kind, fresh: Opener) -> None:
    model, truth = fresh(), Truth(fresh())
    read(model, TEXT[:200])
    model.decode(TEXT[200:203], rows=1)
    read(model, TEXT[:600])
    model.decode(TEXT[600:602], rows=2)
    refused = 0
    for wanted in (601, 599, 400, 190):
        held = model.cached.tolist()
        length = min(wanted, len(held))
        reachable = model.reusable(length)
        assert 0 <= reachable <= length
        if reachable == length:
            model.rewind(length)
        else:
            refused += 1
            with pytest.raises(CannotRewind, match=kind.rollback) as caught:
                model.rewind(length)
            assert caught.value.hint and caught.value.reachable == reachable
            assert model.cached.tolist() == held
            model.rewind(reachable)
        assert model.cached.tolist() == TEXT[:reachable]
        row = model.decode([9], rows=1)[0]
        assert np.abs(row - truth([*TEXT[:reachable], 9])).max() <= kind.tolerance
        model.rewind(reachable)
    assert refused > 0


def test_the_next_turn_finds_the_end_of_the_prompt_and_of_the_answer(kind: Kind, fresh: Opener) -> None:
    model = fresh()
    read(model, TEXT[:300])
    for i in range(300, 400, 5):
        model.decode(TEXT[i : i + 5], rows=5)
    read(model, TEXT[:500])
    model.decode(TEXT[500:501], rows=1)
    assert model.reusable(400) == 400, "an edited message"
    assert model.reusable(300) == 300, "a regenerated answer"
    assert model.reusable(300 + REPLAY) == 300 + REPLAY, "reasoning that the template leaves out"
    assert model.reusable(299) == 0
    model.rewind(300)
    model.decode(TEXT[700:701], rows=1)
    assert model.reusable(301) == 301
    assert model.reusable(300) == 300


def test_checkpoints_of_another_text_are_forgotten(kind: Kind, fresh: Opener) -> None:
    model, truth = fresh(), Truth(fresh())
    other = [*TEXT[:20], *TEXT[500:880]]
    read(model, TEXT[:300])
    model.decode(TEXT[300:320], rows=20)
    read(model, other)
    assert model.reusable(310) == 0
    model.decode([9], rows=1)
    assert model.reusable(310) == 0
    model.rewind(20)
    row = model.decode([9], rows=1)[0]
    assert np.abs(row - truth([*TEXT[:20], 9])).max() <= kind.tolerance


def test_steps_that_could_be_taken_back_can_not_after_a_checkpoint(kind: Kind, fresh: Opener) -> None:
    model = fresh()
    read(model, TEXT[:300])
    for start in (300, 305):
        model.decode(TEXT[start : start + 5], rows=5)
    model.rewind(300)
    assert model.cached.tolist() == TEXT[:300]
    assert model.reusable(297) == 0


def test_a_clear_leaves_nothing(kind: Kind, fresh: Opener) -> None:
    model, truth = fresh(), Truth(fresh())
    read(model, TEXT[:200])
    model.decode(TEXT[200:205], rows=5)
    model.rewind(0)
    assert model.cached.tolist() == []
    model.decode(TEXT[300:500], rows=0)
    model.decode(TEXT[500:505], rows=5)
    assert model.reusable(0) == 0
    model.rewind(202)
    row = model.decode([9], rows=1)[0]
    assert np.abs(row - truth([*TEXT[300:502], 9])).max() <= kind.tolerance


@pytest.mark.parametrize("broken", ["save", "restore", "position", "decode"])
def test_where_llama_cpp_fails_the_cache_is_empty_or_right(
    kind: Kind, fresh: Opener, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    model, truth = fresh(), Truth(fresh())
    real = lc.llama_state_seq_set_data_ext

    def emptying(context: object, *rest: object) -> int:
        size: int = real(context, *rest)
        lc.llama_memory_clear(lc.llama_get_memory(context), False)
        return size

    failing = {
        "save": ("llama_state_seq_get_data_ext", lambda *_: 0),
        "restore": ("llama_state_seq_set_data_ext", lambda *_: 0),
        "position": ("llama_state_seq_set_data_ext", emptying),
        "decode": ("llama_decode", lambda *_: -3),
    }
    with monkeypatch.context() as broke:
        if broken == "save":
            broke.setattr(lc, *failing[broken])
        read(model, TEXT[:200])
        model.decode(TEXT[200:240], rows=40)
        read(model, TEXT[:300])
        if broken != "save":
            broke.setattr(lc, *failing[broken])
        with pytest.raises(CannotRewind) as refused:
            model.rewind(215)
        assert refused.value.reachable == 0
    left = 300 if broken == "save" else 0  # nothing was lost, or everything
    assert model.cached.tolist() == TEXT[:left]
    row = model.decode([9], rows=1)[0]
    assert np.abs(row - truth([*TEXT[:left], 9])).max() <= kind.tolerance


class TestRing:
    def test_it_never_holds_more_bytes_than_it_may(self) -> None:
        ring = Ring(budget=10)
        for length in range(5):
            ring.add(Checkpoint(length, 0, np.zeros(4, np.uint8)))
            assert ring.bytes <= 10
        assert [ring.last(length) and ring.last(length).length for length in range(6)] == [
            None,
            None,
            None,
            3,
            4,
            4,
        ]
        ring.cut(3)
        assert ring.last(9).length == 3 and ring.bytes == 4

    def test_a_state_that_is_too_large_is_not_kept(
        self, models: Models, load: Load, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(memory, "save", lambda *a: checkpoints.save(*a, most=1000))
        model = load(models("recur"), n_ctx=1024)
        read(model, TEXT[:300])
        model.decode(TEXT[300:301], rows=1)
        assert model.reusable(300) == 0


def test_probing_leaves_an_empty_cache(fresh: Opener) -> None:
    assert fresh().cached.tolist() == []
