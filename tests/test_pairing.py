"""Which files can draft for which: llama.cpp's rules, decided from two headers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.llama.load import load_vocab
from localspec.llama.native import lc
from localspec.pairing import FEW, PADDING, Difference, Facts, Pairing, compare, counted, facts, pair
from tests import ggufs, ggufs_mtp
from tests.broken import BAD
from tests.conftest import Models

SPECIAL = (b"<unk>", b"<s>", b"</s>", b"<pad>", b"<x>")
WORDS = Facts("BPE", (*SPECIAL, *(f"word{i}".encode() for i in range(300))))


def pieces(change: dict[int, bytes], of: Facts = WORDS) -> Facts:
    changed = list(of.pieces)
    for i, piece in change.items():
        changed[i] = piece
    return replace(of, pieces=tuple(changed))


def longer(n: int) -> Facts:
    return replace(WORDS, pieces=(*WORDS.pieces, *(f"extra{i}".encode() for i in range(n))))


class TestRules:
    def test_the_same_vocabulary_fits(self) -> None:
        verdict = compare(WORDS, WORDS)
        assert verdict.fits and verdict.method == "draft" and verdict.same_ids
        assert verdict.reason == "the same vocabulary of 305 pieces"
        assert verdict.differences == ()

    @pytest.mark.parametrize(("target", "draft"), [(WORDS, longer(PADDING)), (longer(PADDING), WORDS)])
    def test_padding_fits_and_is_counted(self, target: Facts, draft: Facts) -> None:
        verdict = compare(target, draft)
        assert verdict.fits
        assert verdict.reason == "the same 305 pieces; 128 ids that only one of them has are never proposed"

    @pytest.mark.parametrize(("target", "draft"), [(WORDS, longer(PADDING + 1)), (longer(PADDING + 1), WORDS)])
    def test_more_than_padding_does_not(self, target: Facts, draft: Facts) -> None:
        verdict = compare(target, draft)
        assert not verdict.fits and verdict.method == "translated" and not verdict.same_ids
        assert f"{len(draft.pieces)} pieces, the target's {len(target.pieces)}" in verdict.reason

    def test_the_first_differing_ids_are_shown_with_both_texts(self) -> None:
        swapped = pieces({260: b"word256", 261: b"word255", 300: "ä".encode(), 301: b"\xff"})
        verdict = compare(WORDS, swapped)
        assert not verdict.fits and not verdict.same_ids
        assert verdict.reason == "4 of 305 ids stand for other pieces"
        assert verdict.differences == (
            Difference(260, "'word255'", "'word256'"),
            Difference(261, "'word256'", "'word255'"),
            Difference(300, "'word295'", "'ä'"),
        )

    def test_the_names_of_the_first_few_special_tokens_do_not_matter(self) -> None:
        assert compare(WORDS, pieces({i: b"other" for i in range(5)})).fits
        assert not compare(WORDS, pieces({5: b"other"})).fits

    def test_the_last_common_piece_matters(self) -> None:
        assert not compare(longer(9), pieces({304: b"other"})).fits

    @pytest.mark.parametrize(
        ("target", "draft", "reason"),
        [
            ({}, {"kind": "SPM"}, "its tokenizer is of the kind SPM, the target's is BPE"),
            ({"begin": 1}, {}, "the target begins a text with token 1 ('<s>'), the draft with no token"),
            ({"begin": 1}, {"begin": 2}, "begins a text with token 1 ('<s>'), the draft with token 2 ('</s>')"),
            ({}, {"end": 2}, "the target ends a text with no token, the draft with token 2 ('</s>')"),
            ({"end": 2}, {"end": 999}, "the draft with token 999"),
        ],
    )
    def test_what_differs_is_named_and_an_informed_user_may_insist(
        self, target: dict[str, Any], draft: dict[str, Any], reason: str
    ) -> None:
        verdict = compare(replace(WORDS, **target), replace(WORDS, **draft))
        assert not verdict.fits and verdict.method == "translated"
        assert reason in verdict.reason
        assert verdict.same_ids


@dataclass(frozen=True, slots=True)
class Silent(ggufs.Pieces):
    """A vocabulary whose file leaves out what llama.cpp then assumes."""

    without: tuple[str, ...] = ()
    pre: str = "gpt-2"

    def keys(self, add_bos: bool) -> dict[str, Any]:
        keys = ggufs.Pieces.keys(self, add_bos)
        if self.merges:
            keys["tokenizer.ggml.pre"] = self.pre
        return {
            key: value for key, value in keys.items() if key.removeprefix("tokenizer.ggml.") not in self.without
        }


def silent(pieces: ggufs.Pieces, *without: str, pre: str = "gpt-2") -> Silent:
    return Silent(
        pieces.model, pieces.texts, pieces.kinds, pieces.bos, pieces.eos, pieces.merges, without=without, pre=pre
    )


ADD, BOS = "add_bos_token", "bos_token_id"
VOCABULARIES: dict[str, ggufs.Pieces] = {
    "bpe": ggufs.bpe(),
    "spm": ggufs.spm(),
    "bpe that says little": silent(ggufs.bpe(), ADD, BOS, "eos_token_id"),
    "spm that says little": silent(ggufs.spm(), ADD, BOS, "eos_token_id"),
    "llama-bpe": silent(ggufs.bpe(), ADD, pre="llama-bpe"),
    "tekken": silent(ggufs.bpe(), ADD, BOS, pre="tekken"),
    "gemma4, which llama.cpp corrects": silent(ggufs.bpe(), pre="gemma4"),
    "qwen2": silent(ggufs.bpe(), ADD, pre="qwen2"),
}


class TestFacts:
    @pytest.mark.parametrize("add_bos", [True, False])
    @pytest.mark.parametrize("name", VOCABULARIES)
    def test_they_are_what_llama_cpp_makes_of_the_file(self, tmp_path: Path, name: str, add_bos: bool) -> None:
        path = str(ggufs.noise(tmp_path / "m.gguf", pieces=VOCABULARIES[name], add_bos=add_bos))
        found, vocab = facts(gguf.read(path)), load_vocab(path)
        native = vocab._vocab
        kinds = {"SPM": lc.LLAMA_VOCAB_TYPE_SPM, "BPE": lc.LLAMA_VOCAB_TYPE_BPE}
        assert kinds[found.kind] == lc.llama_vocab_type(native)
        assert found.begin == (vocab.bos if vocab.add_bos else None)
        assert found.end == (vocab.eos if lc.llama_vocab_get_add_eos(native) else None)
        assert list(found.pieces) == [lc.llama_vocab_get_text(native, i) for i in range(vocab.size)]
        vocab.close()


Build = Callable[..., str]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """A tiny model with these options; returns its path."""

    def build_one(name: str, **options: Any) -> str:
        return str(ggufs.noise(tmp_path / f"{name}.gguf", **options))

    return build_one


def verdict(target: str, draft: str) -> Pairing:
    return pair(gguf.check(target), draft)


class TestFiles:
    def test_a_model_of_the_same_family_fits(self, models: Models) -> None:
        found = verdict(models("noise"), models("noise_q8"))
        assert found.fits and found.method == "draft"

    def test_swapped_pieces_are_found_where_the_size_is_the_same(self, build: Build) -> None:
        one, two = build("one", pieces=ggufs.bpe(("ab", "cd"))), build("two", pieces=ggufs.bpe(("cd", "ab")))
        found = verdict(one, two)
        assert found.differences == (Difference(265, "'ab'", "'cd'"), Difference(266, "'cd'", "'ab'"))

    def test_another_tokeniser_may_draft_translated(self, models: Models, build: Build) -> None:
        spm = build("spm", pieces=ggufs.spm())
        found = counted(verdict(models("noise"), spm), models("noise"), spm)
        assert (found.method, found.fits) == ("translated", False)
        assert "of the kind SPM" in found.reason
        assert found.shared is not None and 0.5 < found.shared < 1
        assert len(found.differences) == 3

    def test_without_shared_pieces_nothing_is_promised(self, models: Models, build: Build) -> None:
        strange = build("strange", pieces=ggufs.bpe(tuple(f"{i}long piece" for i in range(5000))))
        found = counted(verdict(models("noise"), strange), models("noise"), strange)
        assert found.shared is not None and found.shared < FEW
        assert found.method is None and found.hint

    def test_a_pair_that_fits_is_not_counted(self, models: Models) -> None:
        found = verdict(models("noise"), models("noise_q8"))
        assert counted(found, "nowhere.gguf", "nowhere.gguf") == found

    def test_a_tokeniser_that_llama_cpp_does_not_know_is_named(self, models: Models, build: Build) -> None:
        odd = build("odd", pieces=silent(ggufs.bpe(("more",)), pre="from-the-future"))
        found = verdict(build("target", pieces=ggufs.bpe(("other",))), odd)
        found = counted(found, models("noise"), odd)
        assert found.method is None and "from-the-future" in found.reason

    @pytest.mark.parametrize("case", sorted(set(BAD) - {"head"}))
    def test_a_draft_that_is_none_has_its_own_sentence(self, models: Models, tmp_path: Path, case: str) -> None:
        make, reason = BAD[case]
        found = verdict(models("noise"), str(make(tmp_path)))
        assert found.method is None and not found.fits
        assert reason in found.reason and found.hint

    def test_prediction_layers_of_their_own_file_fit_their_model(self, tmp_path: Path) -> None:
        model, head = ggufs_mtp.qwen35(tmp_path / "m.gguf"), ggufs_mtp.qwen35_head(tmp_path / "h.gguf")
        found = verdict(str(model), str(head))
        assert (found.method, found.fits) == ("mtp", True)

    def test_an_assistant_fits_the_model_whose_cache_it_reads(self, models: Models, tmp_path: Path) -> None:
        model, head = ggufs_mtp.gemma4(tmp_path / "m.gguf"), ggufs_mtp.assistant(tmp_path / "a.gguf")
        assert verdict(str(model), str(head)).method == "mtp"
        other = verdict(models("noise"), str(head))
        assert other.method is None and "it was trained with a 'gemma4' model" in other.reason

    def test_a_head_is_judged_as_a_head(self, models: Models, tmp_path: Path) -> None:
        make, _ = BAD["head"]
        found = verdict(models("noise"), str(make(tmp_path)))
        assert found.method is None
        assert "head" in found.reason and found.hint

    def test_a_target_that_is_none_is_an_error(self, models: Models, tmp_path: Path) -> None:
        with pytest.raises(ModelLoadError, match="projector"):
            verdict(str(BAD["projector"][0](tmp_path)), models("noise"))

    def test_what_works_but_disappoints_is_said(self, build: Build) -> None:
        small, large = build("small", layers=1, ctx=512), build("large", layers=4)
        assert verdict(large, small).remarks == (
            "The draft was trained on texts of 512 tokens, the target on 2,048: it can draft no further.",
        )
        (remark,) = verdict(small, large).remarks
        assert "no smaller than the target" in remark

    def test_no_model_is_loaded_for_the_verdict(self, models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise AssertionError

        monkeypatch.setattr(lc, "llama_model_load_from_file", refuse)
        assert verdict(models("noise"), models("noise_q8")).fits
        assert verdict(models("noise"), models("emoji")).method == "translated"
