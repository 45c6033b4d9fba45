"""Models of other programs, in folders laid out as theirs are."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from localspec.shelf import found
from localspec.shelf.found import is_companion, local_files


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    return tmp_path


def put(path: Path, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def names(*folders: Path) -> list[tuple[str, str, int]]:
    return [(file.name, file.source, file.size) for file in local_files(folders)]


def test_an_empty_home_has_no_models() -> None:
    assert local_files() == []


@pytest.mark.parametrize("folder", [".lmstudio/models", ".cache/lm-studio/models"])
def test_lm_studio(home: Path, folder: str) -> None:
    put(home / folder / "owner/repo/model-Q4_K_M.gguf")
    put(home / folder / "owner/repo/mmproj-model.gguf")
    put(home / folder / "owner/repo/readme.md")
    assert names() == [("model-Q4_K_M", "LM Studio", 10)]


def test_the_hub_cache_names_a_file_once_however_many_snapshots_link_to_it(home: Path) -> None:
    repo = home / ".cache/huggingface/hub/models--me--model-GGUF"
    blob = put(repo / "blobs/abc", 7)
    for commit in ("aaa", "bbb"):
        (repo / "snapshots" / commit).mkdir(parents=True)
        os.symlink(blob, repo / "snapshots" / commit / "model.gguf")
    os.symlink(repo / "blobs/gone", repo / "snapshots/aaa/lost.gguf")
    assert names() == [("model", "Hub cache", 7)]


def manifest(home: Path, name: str, *layers: tuple[str, str]) -> None:
    text = {"layers": [{"mediaType": f"application/vnd.ollama.image.{kind}", "digest": d} for kind, d in layers]}
    put(home / ".ollama/models/manifests" / name).write_text(json.dumps(text))


def test_ollama_blobs_have_the_names_of_their_manifests(home: Path) -> None:
    put(home / ".ollama/models/blobs/sha256-aa", 5)
    put(home / ".ollama/models/blobs/sha256-bb", 6)
    manifest(home, "registry.ollama.ai/library/llama3.2/3b", ("template", "sha256:tt"), ("model", "sha256:aa"))
    manifest(home, "hf.co/me/model-GGUF/Q4_K_M", ("projector", "sha256:pp"), ("model", "sha256:bb"))
    manifest(home, "registry.ollama.ai/library/gone/latest", ("model", "sha256:cc"))
    put(home / ".ollama/models/manifests/registry.ollama.ai/library/broken/latest").write_text("[")
    put(home / ".ollama/models/manifests/registry.ollama.ai/library/odd/latest").write_text('{"layers": [1]}')
    assert sorted(names()) == [("llama3.2:3b", "Ollama", 5), ("me/model-GGUF:Q4_K_M", "Ollama", 6)]


def test_ollama_may_keep_its_models_elsewhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / ".ollama/models/blobs/sha256-aa", 5)
    manifest(home, "registry.ollama.ai/library/m/latest", ("model", "sha256:aa"))
    (home / ".ollama/models").rename(home / "elsewhere")
    assert names() == []
    monkeypatch.setenv("OLLAMA_MODELS", str(home / "elsewhere"))
    assert names() == [("m:latest", "Ollama", 5)]


def test_the_users_own_folders_come_first_and_win(home: Path) -> None:
    own = put(home / "mine/model.gguf").parent
    (home / ".lmstudio/models").mkdir(parents=True)
    os.symlink(own / "model.gguf", home / ".lmstudio/models/other.gguf")
    assert names(own) == [("model", str(own), 10)]
    assert names(home / "not there") == [("other", "LM Studio", 10)]


def test_a_model_in_parts_is_one_file_with_the_size_of_all(home: Path) -> None:
    for i in (1, 2, 3):
        put(home / f"mine/big-0000{i}-of-00003.gguf", i)
    assert names(home / "mine") == [("big-00001-of-00003", str(home / "mine"), 6)]
    (home / "mine/big-00002-of-00003.gguf").unlink()
    assert names(home / "mine") == []


@pytest.mark.parametrize(
    ("name", "companion"),
    [
        ("mmproj-model-f16.gguf", True),
        ("repo/imatrix.gguf", True),
        ("mtp-gemma-4-12b-it.gguf", True),
        ("MTP/gemma-4-12b-it.gguf", True),
        ("eagle3-gpt-oss-20b-Q8_0.gguf", True),
        ("dflash-draft-3.6-q4_k_m.gguf", True),
        ("Qwen3-4B-DFlash.Q8_0.gguf", True),
        ("model-00002-of-00002.gguf", True),
        ("model-00001-of-00002.gguf", False),
        ("Qwen3.5-4B-MTP-GGUF/Qwen3.5-4B-UD-Q4_K_XL.gguf", False),
        ("my-mmproj-free-model.gguf", False),
    ],
)
def test_what_belongs_to_a_model_is_none(name: str, companion: bool) -> None:
    assert is_companion(name) is companion


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights there")
def test_links_in_circles_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked, entries = [], found._entries
    monkeypatch.setattr(found, "_entries", lambda folder: looked.append(folder) or entries(folder))
    put(home / "mine/a/model.gguf")
    os.symlink(home / "mine", home / "mine/a/back")
    os.symlink(home / "mine/a/self", home / "mine/a/self")
    assert len(local_files([home / "mine"])) == 1
    below = [os.path.realpath(folder) for folder in looked if folder.is_relative_to(home / "mine")]
    assert sorted(below) == [str(home / "mine"), str(home / "mine/a")]


def test_a_linked_folder_is_followed(home: Path) -> None:
    put(home / "disk/model.gguf")
    (home / ".lmstudio").mkdir()
    os.symlink(home / "disk", home / ".lmstudio/models")
    assert names() == [("model", "LM Studio", 10)]


def test_deep_and_endless_folders_are_left(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / "mine" / "/".join("abcdef") / "in.gguf")
    put(home / "mine" / "/".join("abcdefg") / "out.gguf")
    assert [name for name, *_ in names(home / "mine")] == ["in"]
    monkeypatch.setattr(found, "ENTRIES", 3)
    assert names(home / "mine") == []
