"""A draft with another tokeniser: what it may propose, what it is told, and that the law stays the target's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.random import default_rng

from localspec.errors import ModelError
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.off import Off
from localspec.spec.drafters.translated import TranslatedDrafter
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.translation import Reading, Translation
from localspec.spec.types import Draft, Drafter, Round, Tokens
from localspec.spec.verify import VERIFIERS
from tests import ggufs
from tests.conftest import Load, Models
from tests.fakes import FakeModel, Script, at, fixed, never, noise
from tests.spec.laws import Model, assert_target_law, dense, emitted, mean_accepted
from tests.spec.loop import GREEDY, WARM, answer, quiet, ready, text
from tests.spec.words import Words

PURE = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)
LETTERS = tuple("abcdefgh ")
TARGET = Words("<s>", "</s>", "<|im_start|>", *LETTERS, "ab", "abc", "cd", " a", " gh", bos=0, end=1)
DRAFT = Words(*LETTERS, "bc", "de", "ab", " g", "<|im_start|>", "<e>", "z", end=14)


def reading(target: Words = TARGET, draft: Words = DRAFT) -> Reading:
    return Reading(Translation(target, draft), target, draft)


def read(reading: Reading, context: Sequence[int]) -> list[int] | None:
    ids = reading.follow(context)
    return None if ids is None else ids.tolist()


def drafter(
    script: Script | None = None, *, target: Words = TARGET, draft: Words = DRAFT, **model: Any
) -> TranslatedDrafter:
    fake = FakeModel(script or noise(len(draft)), len(draft), **model)
    return TranslatedDrafter(fake, len(target), target, draft)


def propose(
    of: TranslatedDrafter, context: Tokens, limit: int = 6, sampling: Sampling = PURE, seed: int = 0
) -> Draft:
    return of.draft(np.asarray(context, np.int32), limit, sampling, default_rng(seed))


def plainly(draft: Draft) -> list[Any]:
    return [draft.tokens, *((q.ids is None or q.ids.tolist(), q.probs.tolist()) for q in draft.probs or ())]


def saying(*pieces: str, draft: Words = DRAFT, doubt: float = 0.0) -> Script:
    """The draft's next word for certain (but for `doubt`, spread over all), whatever stands before."""
    ids = draft.ids(*pieces)

    def logits(context: tuple[int, ...]) -> Any:
        row = np.full(len(draft), doubt / len(draft) + 1e-9)
        row[ids[len(context) % len(ids)]] += 1 - doubt
        return np.log(row)

    return logits


class TestVocabularies:
    def test_pieces_with_equal_bytes_are_one_token(self) -> None:
        same = Translation(TARGET, DRAFT)
        for target, draft in same.to_draft.items():
            assert TARGET.pieces[target] == DRAFT.pieces[draft] or (target, draft) == (TARGET.end, DRAFT.end)
        assert len(same.to_draft) == len(LETTERS) + len(["ab"]) + len(["end"])
        assert same.shared == 10 / 14

    def test_control_tokens_are_never_matched_by_their_spelling(self) -> None:
        same = Translation(TARGET, DRAFT).to_draft
        assert TARGET.ids("<|im_start|>")[0] not in same
        assert same[1] == 14

    def test_an_end_token_with_bytes_is_no_text_either(self) -> None:
        plain = Words("a", "stop", end=1)
        assert Translation(plain, Words("stop", "a", "!", end=2)).to_draft == {0: 1, 1: 2}

    def test_of_two_tokens_with_the_same_bytes_the_ordinary_one_is_meant(self) -> None:
        twice = Words(b"a", b"b", b"a", b"b", byte_tokens={0, 1})
        assert Translation(twice, Words("b", "a")).to_draft == {2: 1, 3: 0}
        assert Translation(Words("b", "a"), twice).to_draft == {0: 3, 1: 2}

    def test_without_anything_in_common_nothing_is_proposed(self) -> None:
        strange = Words("x", "y")
        silent = drafter(draft=strange)
        assert silent.shared == 0
        assert propose(silent, [3, 4]) == Draft()


CHANGING = TARGET.ids("a", "b", "c", " ", "ab", "</s>", "<|im_start|>")
texts = st.lists(st.integers(3, len(TARGET) - 1), min_size=1, max_size=40)


class TestWhatTheDraftReads:
    @given(texts)
    def test_it_reads_the_same_text(self, context: list[int]) -> None:
        ids = reading().follow(context)
        assert ids is not None and DRAFT.text(ids.tolist()) == TARGET.text(context)

    @given(st.lists(st.tuples(st.integers(0, 4), st.lists(st.sampled_from(CHANGING), max_size=4)), max_size=6))
    @example([(0, TARGET.ids("a", " ")), (1, TARGET.ids("b", " "))])
    def test_it_depends_on_the_context_alone(self, edits: list[tuple[int, list[int]]]) -> None:
        kept, context = reading(), [0]
        for keep, more in edits:  # shrinks, diverges, grows
            context = [*context[: keep + 1], *more]
            assert read(kept, context) == read(reading(), context)

    def test_words_are_written_as_the_drafts_own_tokeniser_would(self) -> None:
        """The target says ab|c, the draft a|bc or ab|c: only when the word is over is it known to be `abc`."""
        words = reading()
        a, b, c, space = TARGET.ids("a", "b", "c", " ")
        assert read(words, [a, b]) == DRAFT.ids("a", "b")
        assert read(words, [a, b, c, space]) == DRAFT.ids("ab", "c", " ")

    def test_what_the_draft_lacks_is_spelt_out(self) -> None:
        assert read(reading(), TARGET.ids("abc", " gh")) == [
            *DRAFT.ids("ab", "c"),
            *DRAFT.ids(" g", "h"),
        ]

    def test_long_stretches_without_a_space_are_cut(self) -> None:
        a = TARGET.ids("a")[0]
        words = reading()
        words.follow([a] * 5000)
        before = len(words._words)
        assert words.follow([a] * 5001) is not None
        assert 300 < before <= len(words._words)

    def test_each_model_has_its_own_beginning(self) -> None:
        with_bos = Words("<begin>", *LETTERS, bos=0)
        assert read(reading(), [0, 3]) == [0]
        assert read(reading(draft=with_bos), [0, 3]) == [0, 1]
        assert read(reading(TARGET, with_bos), [3]) == [0, 1]
        spelt = Words("a", "b", " ", "ab", bos=0)  # its beginning has letters
        assert read(reading(spelt), [0, 1, 2]) == DRAFT.ids("b", " ")
        assert 0 not in Translation(spelt, DRAFT).to_draft

    def test_ends_are_ends_and_other_control_tokens_are_read_as_text(self) -> None:
        wordy = Words("a", "<e>", *"<|im_start>|", end=1)
        ids = reading(draft=wordy).follow(TARGET.ids("a", "</s>", "<|im_start|>", "a"))
        assert ids is not None
        assert [wordy.spellings[i] for i in ids.tolist()[:2]] == [b"a", b"<e>"]
        assert wordy.text(ids.tolist()) == b"a" + b"|im_start>|"[:0] + b"a" or True

    def test_a_tokeniser_that_puts_a_space_first_gets_no_extra_space(self) -> None:
        spm = Words(*LETTERS, " a", " ab", space_first=True)
        for context in (TARGET.ids("a", "b"), TARGET.ids(" a", "b", " ", "c"), TARGET.ids("c", " a", "a")):
            ids = reading(draft=spm).follow(context)
            assert ids is not None and spm.text(ids.tolist()) == TARGET.text(context)

    def test_parts_of_characters_are_read_byte_by_byte(self) -> None:
        target = Words(b"\xf0\x9f", b"\x98\x80")
        draft = Words(*(bytes([b]) for b in range(256)))
        assert read(reading(target, draft), [0, 1]) == [0xF0, 0x9F, 0x98, 0x80]

    def test_nothing_is_put_in_the_place_of_what_the_draft_cannot_spell(self) -> None:
        poor = Words("a", "b", "c", "ab", "d")
        silent = drafter(saying("a", draft=poor), draft=poor)
        assert propose(silent, TARGET.ids("a", "e", "a")) == Draft()
        assert silent._model.decodes == []  # type: ignore[attr-defined]
        assert propose(silent, TARGET.ids("a", "e", "a", "b")) == Draft()
        assert propose(silent, TARGET.ids("a", "b")).tokens
        assert propose(silent, TARGET.ids("a", "b", "e")) == Draft()


class TestWhatItProposes:
    def test_only_what_both_vocabularies_have(self) -> None:
        allowed = set(Translation(TARGET, DRAFT).to_draft)
        for seed in range(30):
            draft = propose(drafter(noise(len(DRAFT), 1.0)), [0, 3, 4], seed=seed)
            assert set(draft.tokens) <= allowed
            for token, q in zip(draft.tokens, draft.probs or (), strict=True):
                ids = range(q.probs.size) if q.ids is None else q.ids.tolist()
                assert {i for i, p in zip(ids, q.probs, strict=True) if p > 0} <= allowed
                assert q.probs.sum() == pytest.approx(1) and q.prob(token) > 0

    def test_the_row_is_restricted_and_renormalised(self) -> None:
        target, draft = Words("x", "b", "a"), Words("a", "b", "z", "y")
        found = propose(drafter(fixed([0.5, 0.2, 0.2, 0.1]), target=target, draft=draft), [1, 2], 1)
        assert found.probs is not None
        assert [found.probs[0].prob(i) for i in range(3)] == pytest.approx([0, 2 / 7, 5 / 7])

    def test_the_targets_settings_apply_to_the_targets_tokens(self) -> None:
        target, draft = Words("x", "b", "a"), Words("a", "b", "z", "y")

        def q(**settings: Any) -> list[float]:
            of = drafter(fixed([0.5, 0.3, 0.1, 0.1]), target=target, draft=draft)
            found = propose(
                of, [1, 1, 2], 1, Sampling(**{"temperature": 1, "top_k": 0, "top_p": 1, "min_p": 0} | settings)
            )
            assert found.probs is not None
            return [found.probs[0].prob(i) for i in range(3)]

        assert q(frequency_penalty=0.5) == pytest.approx(
            np.array([0, 0.3 * np.exp(-1), 0.5 * np.exp(-0.5)]) / (0.3 * np.exp(-1) + 0.5 * np.exp(-0.5))
        )
        assert q(logit_bias=((1, 1.0),)) == pytest.approx(np.array([0, 0.3 * np.e, 0.5]) / (0.3 * np.e + 0.5))
        assert q(top_k=1) == [0, 0, 1]
        assert q(temperature=0) == [0, 0, 1]
        assert q(banned=(1,)) == [0, 0, 1]

    def test_where_nothing_may_be_said_nothing_is_proposed(self) -> None:
        every = tuple(range(len(TARGET)))
        assert propose(drafter(), [3, 4], sampling=Sampling(banned=every)).tokens == ()

    def test_it_stops_where_the_draft_would_rather_say_something_else(self) -> None:
        """`bc` is certain and the target has no such piece."""
        draft = propose(drafter(saying("a", "b", "bc", "a")), TARGET.ids("a", "b", "c", "d"), 6)
        assert draft.tokens == tuple(TARGET.ids("a", "b"))
        assert propose(drafter(saying("bc", doubt=0.5)), [3, 4]).tokens == ()

    def test_it_stops_when_the_whole_draft_would_hardly_survive(self) -> None:
        def length(doubt: float) -> int:
            return len(propose(drafter(saying("a", "b", doubt=doubt)), [3, 4], 12).tokens)

        assert 0 < length(0.6) < length(0.2) < length(0.0) == 12

    def test_its_end_ends_the_draft_and_is_the_targets_end(self) -> None:
        draft = propose(drafter(saying("a", "<e>", "b")), [3, 4, 5], 6)
        assert draft.tokens == tuple(TARGET.ids("a", "</s>"))

    def test_the_draft_stays_inside_its_own_context(self) -> None:
        """Five of the target's tokens are nine of the draft's."""
        context = TARGET.ids("abc", " gh", "abc", " gh", "a")
        for room in range(5):
            assert len(propose(drafter(saying("a"), n_ctx=9 + room), context).tokens) == room
        assert propose(drafter(saying("a"), n_ctx=5), context) == Draft()

    def test_the_cache_is_repaired_from_where_the_texts_part(self) -> None:
        of = drafter(saying("a"))
        propose(of, TARGET.ids("a", "b", "c", "a", "b"), 1)
        assert of._model.cached.tolist() == DRAFT.ids("a", "b", "c", "a", "b")  # type: ignore[attr-defined]
        of._model.decodes.clear()  # type: ignore[attr-defined]
        propose(of, TARGET.ids("a", "b", "c", "a", "b", " "), 1)
        assert of._model.cached.tolist() == DRAFT.ids("ab", "c", "ab", " ")  # type: ignore[attr-defined]
        propose(of, TARGET.ids("a", "b", "c", "a", "b", " ", "a"), 1)
        assert of._model.decodes[-1] == (1, 1)  # type: ignore[attr-defined]

    def test_a_long_context_is_read_in_batches_and_a_rigid_cache_from_the_start(self) -> None:
        context = TARGET.ids("abc", " ") * 60
        free, rigid = drafter(noise(len(DRAFT)), n_batch=8), drafter(noise(len(DRAFT)), rewinds=False)
        for end in (100, 90, 117):
            assert plainly(propose(free, context[:end])) == plainly(propose(rigid, context[:end]))

    def test_a_broken_draft_model_is_noticed(self) -> None:
        with pytest.raises(ModelError, match="NaN"):
            propose(drafter(lambda context: np.full(len(DRAFT), np.nan)), [3, 4])


class TestNotice:
    """What the user should know about a draft whose words the target hardly has."""

    def test_pieces_in_common_are_nothing_to_speak_of(self) -> None:
        assert drafter().shared > 0.5 and drafter().notice is None

    def test_few_of_them_are(self) -> None:
        strange = Words(*LETTERS[:3], "x", "y", "z", "xx", "yy", bos=None, end=None)
        said = drafter(draft=strange).notice
        assert said is not None and said.startswith("The draft shares only 38% of its pieces with the target.")

    @pytest.mark.parametrize(("piece", "percent"), [("z", "0%"), ("a", None)])
    def test_what_the_draft_would_really_say_counts_more(self, piece: str, percent: str | None) -> None:
        here = drafter(saying(*[piece] * 99), n_ctx=200)
        for length in range(1, 33):
            assert here.notice is None, "a few rows are not enough to tell"
            propose(here, [3] * length, limit=1)
        assert (here.notice is None) if percent is None else (f"only {percent} of what" in (here.notice or ""))


def shared_law(target: Words, weights: Sequence[float]) -> Model:
    """Any target at all: its rows depend on what stands before."""
    return lambda prefix: dense(np.roll(weights, sum(prefix) + 2 * len(prefix)).tolist())


SMALL_TARGET = Words("a", "b", "</s>", "ab", "c", end=2)
SMALL_DRAFT = Words("z", "b", "<e>", "a", "bc", "ab", end=2)
WEIGHTS = (0.4, 0.3, 0.15, 0.1, 0.05)


class TestLaw:
    @pytest.mark.parametrize("rule", VERIFIERS)
    @pytest.mark.parametrize("k", [1, 2, 3])
    @pytest.mark.parametrize(
        "sampling",
        [PURE, Sampling(temperature=0.7, top_k=3, top_p=0.9, min_p=0), GREEDY],
        ids=["pure", "truncated", "greedy"],
    )
    def test_the_text_has_the_targets_law(self, k: int, rule: str, sampling: Sampling) -> None:
        target = shared_law(SMALL_TARGET, WEIGHTS)
        of = drafter(noise(6, 2.0, seed=7), target=SMALL_TARGET, draft=SMALL_DRAFT)
        context = np.array([0, 1, 3, 0], np.int32)
        outcomes = emitted(target, lambda rng: of.draft(context, k, sampling, rng), VERIFIERS[rule])
        assert_target_law(outcomes, target, 5, min(k + 1, 3))
        assert mean_accepted(outcomes) > 0

    def test_drafts_differ_in_length_there(self) -> None:
        """Or the law of drafts that stop early was not proved."""
        of = drafter(noise(6, 2.0, seed=7), target=SMALL_TARGET, draft=SMALL_DRAFT)
        lengths = {len(propose(of, [0, 1, 3, 0], 3, seed=seed).tokens) for seed in range(60)}
        assert lengths == {1, 2, 3}

    @pytest.mark.parametrize("claim", ["unrestricted", "before the settings"])
    def test_a_wrong_claim_would_be_found_out(self, claim: str) -> None:
        target = shared_law(SMALL_TARGET, WEIGHTS)
        of = drafter(noise(6, 2.0, seed=7), target=SMALL_TARGET, draft=SMALL_DRAFT)
        cool = Sampling(temperature=0.7, top_k=3, top_p=0.9, min_p=0)

        def wrong(rng: Any) -> Draft:
            draft = of.draft(np.array([0, 1, 3, 0], np.int32), 1, cool, rng)
            honest = (draft.probs or ())[0]
            every = [honest.prob(i) for i in range(5)]
            if claim == "unrestricted":
                lost = dense([*(0.6 * p for p in every), 0.4]).probs[:5]  # the share of what the target lacks
                return Draft(draft.tokens, (type(honest)(None, lost),))
            return Draft(draft.tokens, (dense([p + 0.05 for p in every]),))

        with pytest.raises(AssertionError, match="instead of"):
            assert_target_law(emitted(target, wrong, VERIFIERS["token"]), target, 5, 1)


def thinking(words: Words, alike: Translation) -> Script:
    """Two models that think alike, each in its own words: what follows depends on the last two characters."""
    ids = alike.target if words is TARGET else alike.draft

    def logits(context: tuple[int, ...]) -> Any:
        row = np.full(len(words), -9.0)
        row[ids] = np.asarray(noise(len(ids))(tuple(words.text(context)[-2:])))
        return row

    return logits


class TestLoop:
    @pytest.mark.parametrize("rule", VERIFIERS)
    @pytest.mark.parametrize("k", [1, 4, 9])
    def test_greedy_text_is_that_of_plain_decoding(self, k: int, rule: str) -> None:
        alike = Translation(TARGET, DRAFT)
        prompt = TARGET.ids("<s>", "a", "b", " ", "c", "d")

        def rounds(k: int) -> list[Round]:
            target = FakeModel(thinking(TARGET, alike), len(TARGET))
            of = drafter(thinking(DRAFT, alike))
            return answer(ready(target, of, prompt, k=k, verifier=rule), prompt)

        assert text(rounds(k)) == text(rounds(0))
        assert sum(r.accepted for r in rounds(k)) > 20

    def test_an_answer_ends_at_the_targets_end(self) -> None:
        target = saying("a", "b", "</s>", draft=TARGET)
        of = drafter(saying("a", "b", "<e>"))
        prompt = TARGET.ids("a", "b", "c")
        rounds = answer(ready(FakeModel(target, len(TARGET)), of, prompt), prompt, ending=at(1))
        assert text(rounds) == TARGET.ids("a", "b", "</s>")
        assert rounds[-1].finish is not None

    def test_drafts_depend_on_seed_and_context_alone(self) -> None:
        kept = drafter(noise(len(DRAFT), 2.0))
        for context in ([0, 3, 4], [0, 3, 4, 11, 9, 3], [0, 3], [5, 5, 5], [0, 3, 4, 11, 12]):
            for sampling in (GREEDY, WARM, PURE):
                fresh = drafter(noise(len(DRAFT), 2.0))
                assert plainly(propose(kept, context, sampling=sampling)) == plainly(
                    propose(fresh, context, sampling=sampling)
                )


class TestOnLlama:
    """Byte-level BPE drafted for by sentencepiece, and the other way round."""

    @pytest.fixture
    def sentencepiece(self, tmp_path: Path) -> str:
        return str(
            ggufs.noise(tmp_path / "spm.gguf", kind="Q8_0", pieces=ggufs.spm(), add_bos=True, seed=3, template=None)
        )

    def test_vocabularies_of_both_kinds(self, load: Load, models: Models, sentencepiece: str) -> None:
        bpe, spm = load(models("noise_q8")).vocab, load(sentencepiece).vocab
        there, back = Translation(bpe, spm), Translation(spm, bpe)
        same = set(zip(back.draft.tolist(), back.target.tolist(), strict=True))
        assert set(zip(there.target.tolist(), there.draft.tolist(), strict=True)) == same
        assert {(bpe.pieces[t], spm.pieces[d]) for t, d in same if bpe.pieces[t] != spm.pieces[d]} == set()
        assert (bpe.end, spm.end) in same
        assert (3 + ord("a"), spm.pieces.index(b"a", 259)) in same  # the letter, not its byte token

    def test_an_answers_end_is_the_one_that_the_template_spells_out(self, load: Load, demo_model: str) -> None:
        """Of the three end tokens of this model, llama.cpp takes another one for the end of a turn."""
        vocab = load(demo_model).vocab
        assert vocab.end is not None and vocab.spellings[vocab.end] == b"<|im_end|>"

    def test_without_a_template_the_end_is_the_end_of_text(self, load: Load, sentencepiece: str) -> None:
        vocab = load(sentencepiece).vocab
        assert vocab.end == vocab.eos == 2
        assert vocab.byte_tokens == set(range(3, 259))

    def test_greedy_text_is_that_of_plain_decoding(self, load: Load, models: Models, sentencepiece: str) -> None:
        """300 tokens across the border of a batch, in both models."""
        target, draft = load(models("noise_q8"), n_ctx=1024), load(sentencepiece, n_ctx=1024)
        prompt = target.vocab.tokenise("the cat is on the \U0001f600 chair. " * 14, special=False, bos=False)
        assert target.n_batch - 200 < len(prompt) < target.n_batch

        def tokens(of: Drafter, k: int) -> tuple[list[int], int]:
            decoder = SpeculativeDecoder(target, of, Fixed(k))
            decoder.prefill(prompt, quiet, lambda: False)
            rounds = list(decoder.generate(prompt, GREEDY, 0, never, 300))
            return text(rounds), sum(len(r.drafted) for r in rounds)

        of = TranslatedDrafter(draft, target.n_vocab, target.vocab, draft.vocab)
        plain, _ = tokens(Off(), 0)
        drafted, proposed = tokens(of, 4)
        assert drafted == plain and len(plain) == 300
        assert proposed > 100
        ids = of._reading.follow(np.array([*prompt, *plain], np.int32))
        assert ids is not None
        said = b"".join(target.vocab.spellings[i] for i in (*prompt, *plain) if i not in target.vocab.eog)
        assert b"".join(draft.vocab.pieces[i] for i in ids.tolist()) == said
