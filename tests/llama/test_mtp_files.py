"""Files of prediction layers that can't be used: each in a sentence, before any native call, and the chat goes on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localspec import gguf
from localspec.errors import LocalspecError, ModelError, ModelLoadError
from localspec.llama import hidden, prediction
from localspec.llama.drafters.mtp import Mtp
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.drafters.off import Off
from tests import ggufs, ggufs_mtp
from tests.llama.drafting import PROMPT, answer
from tests.llama.test_mtp import KINDS, Files, opened


@pytest.fixture(scope="module", name="files")
def made_for_this_file(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("mtp"))


@pytest.mark.parametrize(
    "build, reason",
    [
        (ggufs.noise, "carries no layers for multi-token prediction"),
        (
            lambda p: ggufs_mtp.qwen35(p, without=("",)),
            "claims a prediction layer, but its tensors are not in it",
        ),
        (lambda p: ggufs_mtp.step35(p, without=("",)), "claims 3 prediction layers, but their tensors are not"),
    ],
)
def test_a_model_without_layers_says_why_and_answers(
    tmp_path: Path, build: Callable[[Path], Path], reason: str
) -> None:
    with closing(opened(str(build(tmp_path / "m.gguf")), 256)) as model:
        with pytest.raises(ModelError, match=reason) as caught:
            Mtp(model)
        assert caught.value.message.startswith("mtp can't run: ") and caught.value.hint
        assert len(answer(model, Off(), PROMPT[:20], 5)) == 5


@pytest.mark.parametrize(
    "build, tensor",
    [
        (lambda p: ggufs_mtp.qwen35(p, without=("attn_k_norm.weight",)), r"blk\.2\.attn_k_norm"),
        (lambda p: ggufs_mtp.step35(p, without=("blk.4.nextn.eh_proj.weight",)), r"blk\.4\.nextn\.eh_proj"),
    ],
)
def test_a_layer_with_holes_is_named(tmp_path: Path, build: Callable[[Path], Path], tensor: str) -> None:
    with pytest.raises(ModelLoadError, match=tensor):
        opened(str(build(tmp_path / "m.gguf")), 256)


@pytest.mark.parametrize(
    "build, reason",
    [
        (
            lambda p: ggufs.noise(p, extra={"llama.nextn_predict_layers": 1}),
            "the prediction layers of a 'llama'",
        ),
        (
            lambda p: ggufs.hybrid(p, layers=4, more=({"$.nextn_predict_layers": 2}, {})),
            "has 2 prediction layers, and llama.cpp runs only one of a 'qwen35' model",
        ),
    ],
)
def test_layers_that_llama_cpp_cannot_run(tmp_path: Path, build: Callable[[Path], Path], reason: str) -> None:
    assert reason in (prediction.trouble(gguf.read(str(build(tmp_path / "m.gguf")))) or "")


def test_layers_in_the_last_part_of_a_split_file_are_found(tmp_path: Path) -> None:
    ggufs_mtp.step35(tmp_path / "m.gguf", per_file=20)
    first = sorted(map(str, tmp_path.iterdir()))[0]
    with closing(opened(first, 256)) as model:
        assert model.mtp_off is None
        assert len(answer(model, Mtp(model), PROMPT[:20], 5)) == 5


def test_layers_that_were_not_asked_for_are_not_loaded(files: Files) -> None:
    model = LlamaModel.load(ModelSpec(files("one layer")[0], threads=1, n_ctx=256))
    with closing(model), pytest.raises(ModelError, match="were not loaded"):
        Mtp(model)


@pytest.mark.parametrize(
    "build, reason",
    [
        (ggufs.noise, "it is a whole model"),
        (lambda p: ggufs_mtp.qwen35_head(p, arch="qwen35moe"), "with a 'qwen35moe' model"),
        (lambda p: ggufs_mtp.qwen35_head(p, arch="glm4"), "can't run the prediction layers of a 'glm4' model"),
        (lambda p: ggufs_mtp.qwen35_head(p, extra={"$.embedding_length": 96}), "of width 96, and .* has 64"),
        (lambda p: ggufs_mtp.qwen35_head(p, pieces=ggufs.bpe(("more",))), "266 pieces, that of .* 265"),
        (lambda p: ggufs_mtp.qwen35_head(p, without=("token_embd.weight",)), "no embeddings of its own"),
        (lambda p: ggufs_mtp.qwen35_head(p, without=("output_norm.weight",)), "lacks the norm"),
        (lambda p: ggufs_mtp.qwen35_head(p, without=("blk.2.nextn.hnorm.weight",)), "its tensors are not"),
        (lambda p: ggufs_mtp.qwen35_head(p, without=("blk.2.attn_q.weight",)), "attn_q"),
        (ggufs_mtp.assistant, "with a 'gemma4' model"),
        (lambda p: Path(p.write_bytes(b"GGUF") and p), "Cannot load"),
    ],
)
def test_a_file_of_layers_that_does_not_fit(files: Files, tmp_path: Path, build: Any, reason: str) -> None:
    refused(files("a file of its own")[0], build(tmp_path / "head.gguf"), reason)


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"target_width": 96}, "of width 96"),
        ({"extra": {"$.attention.sliding_window": 64}}, "cache of .* has another shape"),
        ({"extra": {"$.attention.key_length": 64}}, "cache of .* has another shape"),
        ({"extra": {"$.attention.head_count_kv": 1}}, "another number of heads"),
        ({"extra": {"$.nextn_predict_layers": 0}}, "carries no layers"),
        ({"pieces": ggufs.bpe(("more",))}, "266 pieces"),
    ],
)
def test_a_head_for_another_cache(files: Files, tmp_path: Path, options: Any, reason: str) -> None:
    refused(files("a sharing head")[0], ggufs_mtp.assistant(tmp_path / "head.gguf", **options), reason)


def refused(target: str, head: Path, reason: str) -> None:
    with closing(opened(target, 256)) as model:
        before = answer(model, Off(), PROMPT[:20], 5)
        with pytest.raises(ModelLoadError, match=reason):
            Mtp(model, ModelSpec(str(head), threads=1))
        assert answer(model, Off(), PROMPT[:20], 5) == before


@pytest.mark.parametrize("name", KINDS)
def test_a_build_without_the_functions(files: Files, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(hidden._found, "llama_set_nextn_layer_offset")
    with closing(opened(files(name)[0], 256)) as target, pytest.raises(LocalspecError, match="does not export"):
        Mtp(target, files(name)[1])


def test_longer_drafts_than_there_are_layers(files: Files) -> None:
    with closing(opened(files("several layers")[0], 256)) as model, closing(Mtp(model)) as drafter:
        told = drafter.head.too_long(8)
        assert told == "Draft length 8 is clamped to 3: the model has 3 prediction layers, one for each token."
        assert drafter.head.too_long(3) is None
    with closing(opened(files("one layer")[0], 256)) as model, closing(Mtp(model)) as drafter:
        assert drafter.head.too_long(64) is None
