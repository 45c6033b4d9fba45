"""Drafts from prediction layers of every kind: the text is the target's, and the layers stay in step with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.llama.drafters.mtp import Mtp
from localspec.llama.model import LlamaModel
from localspec.llama.native import lc
from localspec.model import ModelSpec
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Round, Token
from localspec.spec.verify import VERIFIERS
from tests import ggufs, ggufs_mtp
from tests.llama.drafting import PATTERNS, PROMPT, Forced, answer, read
from tests.llama.test_head_law import ALLOWED, Plain, emit
from tests.spec import laws
from tests.spec.enumeration import law

# Tiny random models repeat one token for ever; with a penalty their text wanders and hangs on the whole state.
GREEDY = Sampling(temperature=0, frequency_penalty=0.6, penalty_last_n=64, banned=(0, 2))


@dataclass(frozen=True)
class Kind:
    target: Callable[[Path], Path]
    head: Callable[[Path], Path] | None = None
    longest: int = 4
    noise: float = 1e-12  # of a probability, where the target's arithmetic depends on the width of a pass


KINDS = {
    "one layer": Kind(ggufs_mtp.qwen35, noise=1e-4),
    "a file of its own": Kind(ggufs.hybrid, ggufs_mtp.qwen35_head, noise=1e-4),
    "several layers": Kind(ggufs_mtp.step35, longest=3),
    "a sharing head": Kind(ggufs_mtp.gemma4, ggufs_mtp.assistant),
}
K = 4


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, name: str) -> tuple[str, ModelSpec | None]:
        """The target, and the file of its prediction layers where there is one."""
        kind, base = KINDS[name], self._folder / name.replace(" ", "_")
        target, head = base.with_suffix(".gguf"), base.with_suffix(".head.gguf")
        if not target.exists():
            kind.target(target)
            if kind.head:
                kind.head(head)
        return str(target), ModelSpec(str(head), threads=1) if kind.head else None


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("mtp"))


@pytest.fixture(scope="module", params=KINDS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def opened(path: str, n_ctx: int = 1024) -> LlamaModel:
    spec = ModelSpec(path, threads=1, n_ctx=n_ctx, cache_type_k="q8_0", cache_type_v="q8_0")
    return LlamaModel.load(spec, mtp=True)


@pytest.fixture(scope="module")
def shared(files: Files, name: str) -> Iterator[LlamaModel]:
    with closing(opened(files(name)[0])) as model:
        yield model


@pytest.fixture(scope="module")
def other(files: Files, name: str) -> Iterator[LlamaModel]:
    with closing(opened(files(name)[0])) as model:
        yield model


@pytest.fixture
def model(shared: LlamaModel) -> LlamaModel:
    shared.rewind(0)
    return shared


@pytest.fixture
def drafter(files: Files, model: LlamaModel, name: str) -> Iterator[Mtp]:
    with closing(Mtp(model, files(name)[1], unsure=0.0)) as made:
        yield made


@pytest.fixture
def fresh(files: Files, other: LlamaModel, name: str) -> Callable[[list[Token]], tuple[Token, ...]]:
    """What layers draft that have just been made, for a target that has just read the text."""

    def draft(context: list[Token]) -> tuple[Token, ...]:
        other.rewind(0)
        with closing(Mtp(other, files(name)[1], unsure=0.0)) as made:
            read(other, context[:-1])
            return made.draft(np.array(context, np.int32), K, GREEDY, default_rng(0)).tokens

    return draft


@pytest.fixture(scope="module")
def truths(other: LlamaModel) -> Any:
    """Plain decoding after the first `length` tokens of PROMPT."""
    return cache(lambda length, n: answer(other, Off(), PROMPT[:length], n, sampling=GREEDY))


class TestGreedy:
    def test_the_text_is_that_of_plain_decoding(
        self, model: LlamaModel, drafter: Mtp, truths: Any, name: str
    ) -> None:
        """From before the border of a batch to behind it, and with a prompt of two batches."""
        for length in (400, 700):
            lengths: list[int] = []
            text = answer(
                model,
                drafter,
                PROMPT[:length],
                300,
                sampling=GREEDY,
                watch=lambda _, done: lengths.append(len(done.drafted)),  # noqa: B023
            )
            assert text == truths(length, 300) and len(set(text)) > 20
            assert lengths.count(KINDS[name].longest) > 200
        assert drafter.failures == 0

    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_however_many_tokens_are_accepted_the_layers_stay_in_step(
        self, model: LlamaModel, drafter: Mtp, truths: Any, fresh: Any, name: str, pattern: str
    ) -> None:
        """They draft what layers draft that have just read the whole text."""
        prompt, compared, truth = PROMPT[:480], count(), truths(480, 120)
        forced = Forced(drafter, prompt + truth, PATTERNS[pattern])

        def watch(context: list[Token], done: Round) -> None:
            if done.limit == K and next(compared) % 8 == 0:
                assert len(forced.own) == KINDS[name].longest and forced.own == fresh(context)

        assert answer(model, forced, prompt, 120, sampling=GREEDY, watch=watch) == truth
        assert next(compared) > 16 and drafter.failures == 0

    def test_other_methods_take_over_every_few_rounds(
        self, model: LlamaModel, drafter: Mtp, truths: Any, fresh: Any
    ) -> None:
        decoder, rounds = SpeculativeDecoder(model, drafter, Fixed(K)), count()
        others = (Lookup(), Off(), drafter)

        def watch(context: list[Token], done: Round) -> None:
            if done.method == "mtp" and done.limit == K and next(rounds) % 10 == 0:
                assert done.drafted == fresh(context)
            decoder.drafter = others[len(context) // 7 % 3]

        assert answer(model, drafter, PROMPT[:400], 200, sampling=GREEDY, watch=watch, decoder=decoder) == truths(
            400, 200
        )
        assert next(rounds) > 15

    def test_edits_stops_and_another_turn(
        self, model: LlamaModel, other: LlamaModel, drafter: Mtp, fresh: Any
    ) -> None:
        first = PROMPT[:150]
        said = answer(model, drafter, first, 30, sampling=GREEDY)
        model.decode([5, 6, 7], rows=3)  # stopped before the verdict
        turns = (first, first + said + PROMPT[200:230], [*first[:140], 77], first[:20], PROMPT[300:400])
        for turn in turns:
            expected = answer(other, Off(), turn, 30, sampling=GREEDY)
            assert answer(model, drafter, turn, 30, sampling=GREEDY) == expected
        context = [*model.cached.tolist(), 50]
        drafted = drafter.draft(np.array(context, np.int32), K, GREEDY, default_rng(0))
        assert drafted.tokens == fresh(context) and drafter.failures == 0

    def test_made_in_the_middle_of_an_answer(self, files: Files, model: LlamaModel, truths: Any, name: str) -> None:
        decoder, drafted, made = SpeculativeDecoder(model, Off(), Fixed(K)), count(), list[Mtp]()

        def watch(context: list[Token], done: Round) -> None:
            if len(context) == 420:
                made.append(Mtp(model, files(name)[1], unsure=0.0))
                decoder.drafter = made[0]
            elif done.drafted:
                next(drafted)

        assert answer(model, Off(), PROMPT[:400], 100, sampling=GREEDY, watch=watch, decoder=decoder) == truths(
            400, 100
        )
        assert next(drafted) > 50 and made[0].failures == 0
        made[0].close()


@pytest.mark.parametrize("predicted", [1, 3])
def test_layers_that_know_the_text_are_always_right(tmp_path: Path, predicted: int) -> None:
    """Over 500 tokens: a state that is one position off, or a cache with a hole, would end this at once."""
    cycle = (70, 75, 80, 85, 90, 95, 100)
    rounds: list[Round] = []
    with closing(opened(str(ggufs_mtp.knowing(tmp_path / "knowing.gguf", *cycle, predicted=predicted)))) as model:
        drafter = Mtp(model)
        prompt = [*cycle, *cycle]
        text = answer(model, drafter, prompt, 500, watch=lambda _, done: rounds.append(done))
    assert text == [cycle[i % 7] for i in range(500)]
    most = 3 if predicted == 3 else K
    assert {(len(done.drafted), done.accepted) for done in rounds[:-2]} == {(most, most)}


WARM = Sampling(temperature=1.3, top_k=0, top_p=1, min_p=0, repeat_penalty=1.2)


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_what_is_emitted_has_the_targets_law(
    model: LlamaModel, other: LlamaModel, drafter: Mtp, name: str, verifier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every way in which the draws over four tokens can fall is gone through, on the real models."""
    monkeypatch.setattr(laws, "EXACT", KINDS[name].noise)
    context = np.array(PROMPT[50:80], np.int32)
    outcomes = law(lambda rng: emit(model, drafter, context, rng, verifier))
    laws.assert_target_law(outcomes, Plain(other, context), len(ALLOWED), 3)
    assert laws.mean_accepted(outcomes) > 0.3 and drafter.failures == 0


def test_a_trouble_costs_a_draft_and_nothing_else(
    model: LlamaModel, drafter: Mtp, truths: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls, own, drafted = lc.llama_decode, count(), drafter._context._context, list[int]()

    def decode(context: Any, batch: Any) -> int:
        return -3 if context == own and next(calls) == 17 else int(real(context, batch))

    monkeypatch.setattr(lc, "llama_decode", decode)
    text = answer(
        model, drafter, PROMPT[:400], 100, sampling=GREEDY, watch=lambda _, done: drafted.append(len(done.drafted))
    )
    assert text == truths(400, 100)
    assert drafter.failures == 1 and "-3" in drafter.trouble
    assert sum(drafted[-50:]) > 100


def test_a_draft_ends_behind_a_token_that_ends_the_answer(model: LlamaModel, drafter: Mtp) -> None:
    read(model, PROMPT[:50])
    only_end = Sampling(temperature=1.0, banned=tuple(t for t in range(ggufs_mtp.V) if t != 2))
    assert drafter.draft(np.array(PROMPT[:51], np.int32), K, only_end, default_rng(0)).tokens == (2,)


def test_each_layer_drafts_the_token_that_it_was_trained_for(tmp_path: Path) -> None:
    def drafted(other: int) -> tuple[Token, ...]:
        path = str(ggufs_mtp.step35(tmp_path / f"{other}.gguf", other=other))
        with closing(opened(path, 256)) as model, closing(Mtp(model, unsure=0.0)) as drafter:
            read(model, PROMPT[:60])
            return drafter.draft(np.array(PROMPT[:61], np.int32), 8, GREEDY, default_rng(0)).tokens

    usual = drafted(-1)
    assert len(usual) == 3
    for other in range(3):
        changed = drafted(other)
        assert changed[:other] == usual[:other] and changed[other] != usual[other]


def test_a_sharing_head_stands_where_the_last_token_stands(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    target, head = files("a sharing head")
    positions: list[int] = []
    real = lc.llama_decode

    def decode(context: Any, batch: Any) -> int:
        if context != model._context:
            positions.append(batch.pos[0])
        return int(real(context, batch))

    with closing(opened(target, 256)) as model, closing(Mtp(model, head, unsure=0.0)) as drafter:
        read(model, PROMPT[:60])
        monkeypatch.setattr(lc, "llama_decode", decode)
        drafter.draft(np.array(PROMPT[:61], np.int32), K, GREEDY, default_rng(0))
    assert positions == [60] * K
