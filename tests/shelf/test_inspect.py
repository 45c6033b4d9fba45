"""`localspec inspect`: what it says about good files, broken ones, and pairs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGUFReader

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.llama import known
from localspec.shelf.inspecting import inspect
from tests import ggufs, ggufs_heads, ggufs_mtp
from tests.broken import BAD
from tests.conftest import Models

Said = pytest.CaptureFixture[str]
PURPOSES = {"adapter", "projector", "clip", "head", "embedding"}
UNREADABLE = {
    case
    for case in BAD
    if case
    in ("missing", "directory", "pipe", "empty", "html", "git lfs", "zip", "ggml", "zeros", "text", "100 bytes")
    or case.startswith(("magic", "first", "version", "big", "absurd", "alignment"))
}


def facts(said: Said, path: object, draft: object = None) -> tuple[int, dict[str, Any]]:
    """The exit code and the JSON object."""
    said.readouterr()
    code = inspect(str(path), str(draft) if draft else None, as_json=True)
    return code, json.loads(said.readouterr().out)


def table(said: Said, path: object, draft: object = None) -> tuple[int, str]:
    said.readouterr()
    code = inspect(str(path), str(draft) if draft else None, as_json=False)
    return code, said.readouterr().out


class TestFile:
    def test_json_has_the_whole_contract(self, models: Models, said: Said) -> None:
        code, found = facts(said, models("noise_q8"))
        assert code == 0
        assert found["schema"] == "localspec.inspect/1"
        assert {key: found[key] for key in found if key not in ("path", "bytes", "quantisation", "parameters")} == {
            "schema": "localspec.inspect/1",
            "name": "noise",
            "architecture": "llama",
            "files": 1,
            "layers": 2,
            "width": 64,
            "context": 2048,
            "vocabulary": 265,
            "tokenizer": "gpt2 gpt-2",
            "has_template": True,
            "template": None,
            "mtp_layers": 0,
            "mtp_layers_claimed": 0,
            "rewinding": {"rollback": "PART", "cost": "any tail can be cut, which costs nothing"},
            "drafters": dict.fromkeys(("lookup", "suffix", "draft", "translated", "cascade", "eagle3", "dflash"))
            | {"mtp": "the file carries no layers for multi-token prediction"},
            "head": None,
            "purpose": None,
            "problem": None,
            "hint": "",
            "pairing": None,
        }

    @pytest.mark.parametrize("name", ["noise", "noise_q8", "noise_f16", "window_q8", "recur", "hybrid"])
    def test_weights_are_counted_as_the_reference_reader_counts_them(
        self, models: Models, said: Said, name: str
    ) -> None:
        _, found = facts(said, models(name))
        theirs = GGUFReader(models(name)).tensors
        assert found["parameters"] == sum(int(t.n_elements) for t in theirs)
        assert found["bytes"] == Path(models(name)).stat().st_size
        total = sum(int(t.n_bytes) for t in theirs)
        shares = {t.tensor_type.name: 0.0 for t in theirs}
        for t in theirs:
            shares[t.tensor_type.name] += int(t.n_bytes) / total
        assert found["quantisation"] == pytest.approx(shares, abs=1e-4)
        assert list(found["quantisation"].values()) == sorted(found["quantisation"].values(), reverse=True)

    def test_the_table_says_the_same_to_people(self, models: Models, said: Said) -> None:
        code, text = table(said, models("noise_q8"))
        assert code == 0
        rows = {line[:14].rstrip(): line[14:] for line in text.splitlines()}
        assert rows["Architecture"] == "llama, 2 layers of width 64"
        assert rows["Quantisation"].startswith("Q8_0 9")
        assert rows["Vocabulary"] == "265 pieces (gpt2 gpt-2)"
        assert rows["Chat template"] == "renders"
        assert rows["Complete"] == "yes"

    def test_parts_are_one_model(self, tmp_path: Path, said: Said) -> None:
        whole = ggufs.noise(tmp_path / "whole.gguf")
        ggufs.noise(tmp_path / "m.gguf", per_file=8)
        first = tmp_path / "m-00001-of-00003.gguf"
        _, one = facts(said, whole)
        _, three = facts(said, first)
        assert three["files"] == 3
        assert (three["parameters"], three["quantisation"]) == (one["parameters"], one["quantisation"])
        assert three["bytes"] == sum(part.stat().st_size for part in tmp_path.glob("m-*.gguf"))
        assert "in 3 files" in table(said, first)[1]

    def test_what_the_file_says_cannot_act_on_the_terminal(self, tmp_path: Path, said: Said) -> None:
        path = ggufs.noise(tmp_path / "m.gguf", extra={"general.name": "a\x1b[2Jb\nPairs yes"})
        code, text = table(said, path)
        assert code == 0 and "\x1b" not in text
        assert not any(line.startswith("Pairs") for line in text.splitlines())

    def test_only_headers_are_read(self, models: Models, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
        opened: list[str] = []
        really = known.open_model
        monkeypatch.setattr(
            known,
            "open_model",
            lambda native, path, **options: opened.append(path) or really(native, path, **options),
        )
        assert facts(said, models("noise"))[0] == 0
        assert {Path(path).name for path in opened} == {"bare.gguf"}  # what llama.cpp makes of the architecture


class TestTemplate:
    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("noise_no_template", "no chat template, so the ChatML format is used"),
            ("noise_syntax_error", "can't be used"),
            ("noise_unknown_filter", "no_such_filter"),
            ("noise_rejects_system", "takes no system message"),
            ("noise_huge_loop", "can't be used"),
        ],
    )
    def test_why_it_is_not_used_as_it_is(self, models: Models, said: Said, name: str, sentence: str) -> None:
        code, found = facts(said, models(name))
        assert code == 0 and sentence in found["template"]
        assert found["has_template"] == (name != "noise_no_template")
        assert sentence in table(said, models(name))[1]


class TestHeads:
    def test_a_claim_without_tensors_is_named(self, tmp_path: Path, said: Said) -> None:
        path = ggufs.noise(tmp_path / "m.gguf", extra={"llama.nextn_predict_layers": 1})
        _, found = facts(said, path)
        assert (found["mtp_layers"], found["mtp_layers_claimed"]) == (0, 1)
        assert "claims 1 MTP layer, but the file holds 0" in table(said, path)[1]

    def test_none_is_said_too(self, models: Models, said: Said) -> None:
        assert "mtp: the file carries no layers for multi-token prediction" in table(said, models("noise"))[1]

    def test_prediction_layers_are_counted(self, tmp_path: Path, said: Said) -> None:
        path = ggufs_mtp.step35(tmp_path / "m.gguf")
        code, found = facts(said, path)
        assert code == 0 and found["mtp_layers"] == 3
        assert found["drafters"]["mtp"] is None
        assert "lookup, suffix, mtp (3 layers in the file)\n" in table(said, path)[1]

    def test_prediction_layers_alone_are_a_head(self, tmp_path: Path, said: Said) -> None:
        path = with_mtp(tmp_path, trunk=False)
        code, found = facts(said, path)
        assert (code, found["purpose"]) == (0, "it is a draft head (MTP), not a chat model")
        assert found["rewinding"] is None and found["drafters"] == {}
        with pytest.raises(ModelLoadError, match="draft head"):
            gguf.check(str(path))

    def test_what_a_head_is_and_which_targets_it_fits(self, tmp_path: Path, said: Said) -> None:
        path = ggufs_heads.eagle3(tmp_path / "h.gguf", d2t=ggufs_heads.reduced(40))
        code, found = facts(said, path)
        assert code == 0
        assert "llama" in found["head"].pop("architectures")
        assert found["head"] == {
            "kind": "eagle3",
            "layers": 1,
            "reads": [1, 2, 3],
            "width": 64,
            "vocabulary": 265,
            "proposes": 40,
            "longest": None,
            "borrows": False,
            "fault": None,
        }
        _, text = table(said, path)
        assert "EAGLE-3, 1 layer of its own; reads what enters layers 1, 2, 3" in text
        assert "40 of 265 pieces\n" in text
        assert "models of width 64 and at least 3 layers" in text
        assert f"localspec chat --target MODEL --draft {path}\n" in text

    def test_blocks_have_a_length_and_assistants_one_architecture(self, tmp_path: Path, said: Said) -> None:
        block = table(said, ggufs_heads.dflash(tmp_path / "d.gguf"))[1]
        assert "all of 265 pieces, at most 7 tokens at once" in block
        assistant = facts(said, ggufs_mtp.assistant(tmp_path / "a.gguf"))[1]["head"]
        assert assistant["architectures"] == ["gemma4"] and assistant["borrows"]
        assert (assistant["kind"], assistant["width"], assistant["longest"]) == ("mtp", 64, None)

    def test_a_head_that_no_model_can_use_says_why(self, tmp_path: Path, said: Said) -> None:
        path = ggufs_mtp.qwen35_head(tmp_path / "h.gguf", without=("token_embd.weight",))
        code, found = facts(said, path)
        assert code == 0 and found["head"]["fault"] == "it has no embeddings of its own"
        _, text = table(said, path)
        assert "no model: it has no embeddings of its own" in text and "What to do" not in text


class TestDrafters:
    @pytest.mark.parametrize(
        ("name", "rollback", "words"),
        [
            ("noise", "PART", "costs nothing"),
            ("window", "PART", "windows is kept whole"),
            ("recur", "FULL", "checkpoint"),
            ("hybrid", "RS", "the last 8 tokens"),
        ],
    )
    def test_how_the_cache_takes_tokens_back(
        self, models: Models, said: Said, name: str, rollback: str, words: str
    ) -> None:
        _, found = facts(said, models(name))
        assert found["rewinding"]["rollback"] == rollback and words in found["rewinding"]["cost"]
        assert f"Rollback      {rollback}: " in table(said, models(name))[1]

    def test_who_can_draft_and_why_the_others_cannot(self, models: Models, said: Said) -> None:
        _, found = facts(said, models("recur"))
        reason = "llama.cpp can't read the hidden states of a 'mamba' model"
        assert found["drafters"]["eagle3"] == found["drafters"]["dflash"] == reason
        assert found["drafters"]["suffix"] is None
        text = " ".join(table(said, models("recur"))[1].split())
        assert f"eagle3, dflash: {reason}" in text
        assert "(--draft FILE): draft, translated, cascade Can't" in text

    def test_of_a_damaged_file_nothing_is_promised(self, tmp_path: Path, said: Said) -> None:
        path = ggufs.noise(tmp_path / "m.gguf")
        path.write_bytes(path.read_bytes()[:-64])
        _, found = facts(said, path)
        assert found["rewinding"] is None and found["drafters"] == {}


def with_mtp(folder: Path, *, trunk: bool) -> Path:
    block: ggufs.Tensors = {"blk.1.nextn.eh_proj.weight": np.zeros((4, 8), np.float32)}
    if trunk:
        block["blk.0.attn_norm.weight"] = np.zeros(4, np.float32)
    keys = ggufs.dims(4, 2, 1, 4, 64) | {"$.nextn_predict_layers": 1} | ggufs.bpe().keys(add_bos=False)
    return ggufs.write(folder / "mtp.gguf", "qwen35", keys, block)


class TestTrouble:
    @pytest.mark.parametrize("case", sorted(UNREADABLE))
    def test_a_file_without_a_header_is_one_sentence(self, tmp_path: Path, said: Said, case: str) -> None:
        build, reason = BAD[case]
        path = build(tmp_path)
        with pytest.raises(ModelLoadError, match="Cannot load"):
            table(said, path)
        code, found = facts(said, path)
        assert code == 1
        assert reason in found["problem"] and found["hint"]

    @pytest.mark.parametrize("case", sorted(set(BAD) - UNREADABLE - PURPOSES))
    def test_of_a_damaged_file_what_is_known_is_shown(self, tmp_path: Path, said: Said, case: str) -> None:
        build, reason = BAD[case]
        path = build(tmp_path)
        code, found = facts(said, path)
        assert code == 1
        assert reason in found["problem"] and found["hint"]
        assert found["parameters"] > 0
        assert found["architecture"] == ("" if case == "second shard" else "llama")
        code, text = table(said, path)
        assert ("Architecture" in text) == (case != "second shard")
        assert code == 1
        assert f"no: {found['problem']}" in text and found["hint"] in text

    @pytest.mark.parametrize("case", sorted(PURPOSES))
    def test_a_sound_file_of_another_kind_is_not_damaged(self, tmp_path: Path, said: Said, case: str) -> None:
        build, reason = BAD[case]
        path = build(tmp_path)
        code, found = facts(said, path)
        assert code == 0 and found["problem"] is None
        assert reason in found["purpose"]
        assert reason in table(said, path)[1]

    def test_a_damaged_file_of_another_kind_is_damaged(self, tmp_path: Path, said: Said) -> None:
        path = ggufs.noise(tmp_path / "m.gguf", extra={"general.type": "adapter"})
        path.write_bytes(path.read_bytes()[:-64])
        code, found = facts(said, path)
        assert code == 1 and "its last 64 bytes are missing" in found["problem"]
        assert "LoRA adapter" in found["purpose"]

    def test_an_architecture_that_this_llama_cpp_does_not_know(self, models: Models, said: Said) -> None:
        code, found = facts(said, models("unknown"))
        assert code == 1
        assert "does not know the architecture 'futuristic'" in found["problem"]
        assert known.refusal("llama") is known.refusal("qwen35") is None


class TestPair:
    def test_a_pair_that_works(self, models: Models, said: Said) -> None:
        code, found = facts(said, models("noise"), models("noise_q8"))
        assert code == 0
        assert found["pairing"]["method"] == "draft"
        assert set(found["pairing"]) == {
            *("draft", "method", "reason", "hint", "differences", "same_ids", "shared", "remarks"),
        }
        _, text = table(said, models("noise"), models("noise_q8"))
        assert "yes: the same vocabulary of 265 pieces" in text
        assert f"localspec chat --target {models('noise')} --draft {models('noise_q8')}\n" in text

    def test_a_pair_that_works_translated(self, models: Models, said: Said) -> None:
        code, found = facts(said, models("noise"), models("emoji"))
        assert code == 0 and found["pairing"]["method"] == "translated"
        assert 0 < found["pairing"]["shared"] < 1
        assert found["pairing"]["differences"][0].keys() == {"id", "target", "draft"}
        _, text = table(said, models("noise"), models("emoji"))
        assert f"{found['pairing']['shared']:.1%} of the draft's pieces" in text
        assert "--method translated" in text and "id 5 is " in text

    @pytest.mark.parametrize("case", ["missing", "half", "projector", "head", "embedding"])
    def test_a_draft_that_is_none(self, models: Models, said: Said, tmp_path: Path, case: str) -> None:
        draft = BAD[case][0](tmp_path)
        code, found = facts(said, models("noise"), draft)
        assert code == 1 and found["pairing"]["method"] is None
        assert found["problem"] is None
        code, text = table(said, models("noise"), draft)
        assert code == 1
        assert f"no: {found['pairing']['reason']}" in text and found["pairing"]["hint"] in text

    @pytest.mark.parametrize("case", ["half", "projector"])
    def test_a_target_that_is_none(self, models: Models, said: Said, tmp_path: Path, case: str) -> None:
        build, reason = BAD[case]
        code, found = facts(said, build(tmp_path), models("noise"))
        assert code == 1
        assert found["pairing"]["reason"].startswith("the target can't be used: ")
        assert reason in found["pairing"]["reason"]


class TestProgram:
    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        code = "from localspec.cli import main; main()"
        return subprocess.run(
            [sys.executable, "-c", code, "inspect", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def test_it_prints_and_exits(self, models: Models) -> None:
        good = self.run(models("noise"), "--draft", models("noise_q8"), "--json")
        assert (good.returncode, good.stderr) == (0, "")
        assert json.loads(good.stdout)["pairing"]["method"] == "draft"

    def test_trouble_is_a_sentence_and_a_hint(self) -> None:
        bad = self.run("nowhere.gguf")
        assert (bad.returncode, bad.stdout) == (1, "")
        assert bad.stderr.startswith("localspec: Cannot load nowhere.gguf: there is no such file\n  ")
        assert len(bad.stderr.splitlines()) == 2


@pytest.fixture
def said(capsys: Said) -> Said:
    return capsys
