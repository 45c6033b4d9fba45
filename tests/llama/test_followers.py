"""What holds for every drafter with a head: the text is the target's, and the head stays in step with it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.errors import ModelError
from localspec.llama import hidden
from localspec.llama.drafters.follower import Follower
from localspec.llama.model import LlamaModel
from localspec.llama.native import lc
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Round, Token
from tests.conftest import Load, Models
from tests.ggufs_heads import HEADS, V, eagle3, reduced
from tests.llama.drafting import (
    GREEDY,
    PATTERNS,
    PROMPT,
    Files,
    Forced,
    Fresh,
    answer,
    head,
    open_target,
    plain,
    read,
)

every_head = pytest.mark.parametrize("name", HEADS)
one_of_each = pytest.mark.parametrize("name", ["eagle3_reduced", "dflash", "dspark"])
N = 300


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("heads"))


# Loaded once, and emptied before each test.
target_for_the_file = pytest.fixture(scope="module", name="shared")(open_target)
other_for_the_file = pytest.fixture(scope="module", name="other")(open_target)


@pytest.fixture
def model(shared: LlamaModel) -> LlamaModel:
    shared.rewind(0)
    return shared


@pytest.fixture
def drafter(files: Files, model: LlamaModel, name: str) -> Iterator[Follower]:
    with closing(head(model, files(name))) as made:
        yield made


@pytest.fixture(scope="module")
def truths(other: LlamaModel) -> Any:
    """Plain decoding after the first `length` tokens of PROMPT."""
    return cache(lambda length, n=N: plain(other, PROMPT[:length], n))


class TestGreedy:
    @pytest.mark.parametrize("length", [400, 700])
    @one_of_each
    def test_the_text_is_that_of_plain_decoding(
        self, model: LlamaModel, drafter: Follower, truths: Any, name: str, length: int
    ) -> None:
        """From before the border of a batch to behind it, and with a prompt of two batches."""
        assert answer(model, drafter, PROMPT[:length], N) == truths(length)
        assert drafter.failures == 0

    @every_head
    def test_every_variant_stays_in_step(
        self, files: Files, model: LlamaModel, other: LlamaModel, drafter: Follower, truths: Any, name: str
    ) -> None:
        assert answer(model, drafter, PROMPT[:480], 60) == truths(480, 60)
        context = [*model.cached, 5]
        drafted = drafter.draft(np.array(context, np.int32), 4, GREEDY, default_rng(0))
        assert drafted.tokens == Fresh(other, files(name))(context, 4) and drafter.failures == 0

    @pytest.mark.parametrize("pattern", PATTERNS)
    @one_of_each
    def test_however_many_tokens_are_accepted_the_head_stays_in_step(
        self,
        files: Files,
        model: LlamaModel,
        other: LlamaModel,
        drafter: Follower,
        truths: Any,
        name: str,
        pattern: str,
    ) -> None:
        """It drafts what a head drafts that has just read the whole text."""
        prompt, fresh, compared = PROMPT[:480], Fresh(other, files(name)), count()
        truth = truths(480, 120)
        forced = Forced(drafter, prompt + truth, PATTERNS[pattern])

        def watch(context: list[Token], done: Round) -> None:
            if done.limit == 4 and next(compared) % 8 == 0:
                assert len(forced.own) == 4 and forced.own == fresh(context, 4)

        assert answer(model, forced, prompt, 120, watch=watch) == truth
        assert next(compared) > 16 and drafter.failures == 0

    @one_of_each
    def test_lookup_takes_over_every_few_rounds(
        self, files: Files, model: LlamaModel, other: LlamaModel, drafter: Follower, truths: Any, name: str
    ) -> None:
        decoder = SpeculativeDecoder(model, drafter, Fixed(4))
        others, fresh, rounds = (Lookup(), Off(), drafter), Fresh(other, files(name)), count()

        def watch(context: list[Token], done: Round) -> None:
            if done.method == drafter.name and done.limit == 4 and next(rounds) % 10 == 0:
                assert done.drafted == fresh(context, 4)
            decoder.drafter = others[len(context) // 7 % 3]

        assert answer(model, drafter, PROMPT[:400], N, watch=watch, decoder=decoder) == truths(400)
        assert next(rounds) > 20

    @one_of_each
    def test_a_long_time_unused_is_caught_up_with(
        self, files: Files, model: LlamaModel, other: LlamaModel, drafter: Follower, name: str
    ) -> None:
        context = PROMPT[:40] + plain(model, PROMPT[:40], 250)
        waiting = drafter._features.end - drafter._features.first
        assert waiting < 150  # most of it has been read meanwhile
        drafted = drafter.draft(np.array(context, np.int32), 4, GREEDY, default_rng(0))
        assert drafted.tokens == Fresh(other, files(name))(context, 4)

    @pytest.mark.parametrize("pattern", PATTERNS)
    def test_on_a_target_whose_state_is_stepped_back(
        self, tmp_path: Path, models: Models, load: Load, pattern: str
    ) -> None:
        model, other = load(models("hybrid")), load(models("hybrid"))
        path = str(eagle3(tmp_path / "head.gguf", layers=(0, 1, 2)))
        truth = plain(other, PROMPT[:60], 100)
        with closing(head(model, path)) as drafter:
            forced = Forced(drafter, PROMPT[:60] + truth, PATTERNS[pattern])
            assert answer(model, forced, PROMPT[:60], 100) == truth and drafter.failures == 0
            context = [*model.cached, 5]
            drafted = drafter.draft(np.array(context, np.int32), 4, GREEDY, default_rng(0)).tokens
        assert len(drafted) == 4 and drafted == Fresh(other, path)(context, 4)


class TestTurns:
    @one_of_each
    def test_another_turn_an_edit_and_the_same_again(
        self, files: Files, model: LlamaModel, other: LlamaModel, drafter: Follower, name: str
    ) -> None:
        first = PROMPT[:90]
        said = answer(model, drafter, first, 30)
        turns = {
            "same again": first,
            "another turn": first + said + PROMPT[200:230],
            "an edit": [*first[:50], 77, 78, *first[52:]],
            "a shorter one": first[:20],
            "something else": PROMPT[300:400],
        }
        for turn, prompt in turns.items():
            assert answer(model, drafter, prompt, 40) == plain(other, prompt, 40), turn
        assert drafter.failures == 0
        drafted = drafter.draft(np.array([*model.cached, 50], np.int32), 4, GREEDY, default_rng(0))
        assert drafted.tokens == Fresh(other, files(name))([*model.cached, 50], 4)

    @one_of_each
    def test_a_prompt_that_was_stopped_half_way(
        self, files: Files, model: LlamaModel, other: LlamaModel, drafter: Follower, name: str
    ) -> None:
        decoder, asked = SpeculativeDecoder(model, drafter, Fixed(4)), iter([False, True])
        decoder.prefill(PROMPT[:300], lambda done, total: None, lambda: next(asked), chunk=100)
        assert len(model.cached) == 100
        assert answer(model, drafter, PROMPT[:150], 40) == plain(other, PROMPT[:150], 40)
        context = [*PROMPT[:150], 60]
        model.rewind(100)
        read(model, context[100:-1])
        drafted = drafter.draft(np.array(context, np.int32), 4, GREEDY, default_rng(0))
        assert drafted.tokens == Fresh(other, files(name))(context, 4)

    @one_of_each
    def test_a_head_made_in_mid_text_goes_on_from_there(
        self, files: Files, model: LlamaModel, truths: Any, name: str
    ) -> None:
        read(model, PROMPT[:399])
        with closing(head(model, files(name))) as late:
            drafted: list[int] = []
            found = answer(model, late, PROMPT[:400], N, watch=lambda _, done: drafted.append(len(done.drafted)))
            assert found == truths(400) and late.failures == 0
        assert drafted[0] in (0, 4) and drafted.count(4) > 0.9 * len(drafted)

    @one_of_each
    def test_a_context_that_the_target_has_not_read_gets_no_draft(
        self, model: LlamaModel, drafter: Follower, name: str
    ) -> None:
        read(model, PROMPT[:50])
        for context in (PROMPT[:50], PROMPT[:52], [*PROMPT[:49], 5, 6], [5], []):
            assert drafter.draft(np.array(context, np.int32), 4, GREEDY, default_rng(0)).tokens == ()
        context = np.array(PROMPT[:51], np.int32)
        assert len(drafter.draft(context, 4, GREEDY, default_rng(0)).tokens) == 4
        assert drafter.draft(context, 0, GREEDY, default_rng(0)).tokens == ()
        assert drafter.failures == 0

    @one_of_each
    def test_the_context_may_be_filled_to_the_last_token(
        self, model: LlamaModel, drafter: Follower, name: str
    ) -> None:
        read(model, [3] * 1000)
        found = answer(model, drafter, [3] * 1001, 100)
        assert len(found) == 23 and drafter.failures == 0
        model.rewind(1010)
        read(model, [3] * 10)
        context = np.array([*model.cached, 3], np.int32)
        assert len(drafter.draft(context, 64, GREEDY, default_rng(0)).tokens) == 3
        assert drafter.failures == 0


class TestTrouble:
    @one_of_each
    def test_a_draft_that_fails_is_dropped_and_the_next_ones_come_again(
        self, model: LlamaModel, drafter: Follower, truths: Any, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """On the fifth draft: after its first token with EAGLE-3, before it with a block."""
        real, calls, own, drafted = lc.llama_decode, count(), drafter._context._context, list[int]()

        def decode(context: Any, batch: Any) -> int:
            if context != own or next(calls) != 17:
                return int(real(context, batch))
            return -3

        monkeypatch.setattr(lc, "llama_decode", decode)
        found = answer(model, drafter, PROMPT[:400], N, watch=lambda _, done: drafted.append(len(done.drafted)))
        assert found == truths(400)
        assert drafter.failures == 1 and "-3" in drafter.trouble
        assert sum(drafted[-100:]) > 300

    @one_of_each
    def test_states_that_cannot_be_read_do_not_reach_the_target(
        self, model: LlamaModel, drafter: Follower, truths: Any, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def lost(*_: object) -> hidden.States:
            raise ModelError("There are no states.")

        read(model, PROMPT[:100])
        with monkeypatch.context() as broken:
            broken.setattr(hidden, "layer", lost)
            read(model, PROMPT[100:200])
        assert drafter.failures == 1
        assert answer(model, drafter, PROMPT[:400], N) == truths(400)
        assert drafter.failures == 1

    @pytest.mark.parametrize("name", ["eagle3_reduced", "dflash_reduced"])
    def test_where_every_token_of_the_head_is_banned_it_drafts_nothing(
        self, model: LlamaModel, drafter: Follower, name: str
    ) -> None:
        read(model, PROMPT[:50])
        known = tuple(reduced(90).tolist())
        context = np.array(PROMPT[:51], np.int32)
        for temperature in (0.0, 1.0):
            banned = Sampling(temperature=temperature, banned=known)
            assert drafter.draft(context, 4, banned, default_rng(0)).tokens == ()
            few = Sampling(temperature=temperature, banned=known[:-1])
            assert drafter.draft(context, 4, few, default_rng(0)).tokens == (known[-1],) * 4
        assert drafter.failures == 0

    def test_a_draft_ends_behind_a_token_that_ends_the_answer(self, files: Files, model: LlamaModel) -> None:
        with closing(head(model, files("eagle3"))) as drafter:
            read(model, PROMPT[:50])
            only_end = Sampling(temperature=1.0, banned=tuple(t for t in range(V) if t != 2))
            drafted = drafter.draft(np.array(PROMPT[:51], np.int32), 4, only_end, default_rng(0))
        assert drafted.tokens == (2,)

    @one_of_each
    def test_closing_ends_the_listening(self, files: Files, model: LlamaModel, name: str) -> None:
        drafter = head(model, files(name))
        read(model, PROMPT[:50])
        drafter.close()
        drafter.close()
        read(model, PROMPT[50:60])
        assert drafter._features.end == 50
        context = np.array([*model.cached, 5], np.int32)
        assert drafter.draft(context, 4, GREEDY, default_rng(0)).tokens == ()
