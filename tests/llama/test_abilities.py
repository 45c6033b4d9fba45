"""What is told from a header is what llama.cpp does once the model is loaded."""

from __future__ import annotations

import re
from contextlib import closing
from pathlib import Path

import pytest

from localspec import gguf
from localspec.fit.footprint import STEPPING
from localspec.llama import abilities, heads, hidden, known
from localspec.llama.known import Nature
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from tests import ggufs_mtp
from tests.conftest import Models


@pytest.mark.parametrize("name", ["noise", "window", "recur", "hybrid"])
def test_the_rollback_that_is_promised_is_the_one_that_is_found(models: Models, name: str) -> None:
    with closing(LlamaModel.load(ModelSpec(models(name), n_ctx=256, threads=1))) as model:
        assert abilities.rewinding(gguf.read(models(name))).rollback == model.rollback


def test_of_several_prediction_layers_too(tmp_path: Path) -> None:
    path = str(ggufs_mtp.qwen35(tmp_path / "m.gguf"))
    with closing(LlamaModel.load(ModelSpec(path, n_ctx=256, threads=1), mtp=True)) as model:
        assert abilities.rewinding(gguf.read(path)).rollback == model.rollback == "RS"
        assert (model.mtp_off is None) == (abilities.drafters(gguf.read(path))["mtp"] is None)


@pytest.mark.parametrize(
    ("architecture", "nature"),
    [
        ("llama", Nature(recurrent=False, hybrid=False, remembers=True)),
        ("rwkv7", Nature(recurrent=True, hybrid=False, remembers=True)),
        ("jamba", Nature(recurrent=False, hybrid=True, remembers=True)),
        ("dream", Nature(recurrent=False, hybrid=False, remembers=False)),
        ("futuristic", None),
        ("clip", None),
    ],
)
def test_what_llama_cpp_makes_of_an_architecture(architecture: str, nature: Nature | None) -> None:
    assert known.nature(architecture) == nature


def test_llama_cpp_knows_every_architecture_that_is_named_here() -> None:
    """A name with a slip of the pen would promise nothing, and nobody would notice."""
    assert [name for name in STEPPING | heads.TAPPED if known.nature(name) is None] == []
    assert all(known.nature(name).hybrid for name in STEPPING)  # type: ignore[union-attr]


def test_a_function_that_llama_cpp_lacks_switches_heads_off(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(hidden._found, "llama_get_embeddings_layer_inp")
    off = abilities.drafters(gguf.read(models("noise")))
    assert "does not export llama_get_embeddings_layer_inp" in (off["eagle3"] or "")
    assert off["lookup"] is None


def test_the_page_lists_the_architectures_that_heads_can_draft_for() -> None:
    page = (Path(__file__).parents[2] / "docs" / "learned-drafters.md").read_text("utf-8")
    paragraph = page[page.index("**EAGLE-3 and DFlash heads**") :].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", paragraph)) == heads.TAPPED
