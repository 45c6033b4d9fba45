"""What can be chosen: marks and their reasons, what typing finds, and what is suggested for which machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localspec import catalog
from localspec.fit import capacity
from localspec.fit.plan import Capacity, Gpu
from localspec.shelf import choosing
from localspec.shelf.choosing import Row, Shelf
from tests.conftest import Models

GB = 1_000_000_000
SMALL = Capacity((), 3 * GB)
LAPTOP = Capacity((), 24 * GB)
CARD = Capacity((Gpu("CUDA0", 12 * GB, 12 * GB),), 32 * GB)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(catalog, "config_dir", lambda: tmp_path / "config")
    return tmp_path


def shelf(monkeypatch: pytest.MonkeyPatch, here: Capacity = LAPTOP, *folders: Path) -> Shelf:
    monkeypatch.setattr(capacity, "capacity", lambda: here)
    return choosing.shelf(folders)


def by_name(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row.name: row for row in rows}


def test_a_mark_has_a_symbol_words_and_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = by_name(shelf(monkeypatch, CARD).pairs)
    assert pairs["qwen3-4b"].mark[:2] == ("●", "on GPU")
    partly = pairs["qwen3-32b"].mark
    assert partly.symbol == "◐"
    assert partly.words.endswith("% GPU")
    assert pairs["llama3.3-70b"].mark[:2] == ("✗", "too large")
    assert "host memory" in pairs["llama3.3-70b"].mark.why
    assert by_name(shelf(monkeypatch, LAPTOP).pairs)["qwen3-4b"].mark[:2] == ("○", "CPU")


def test_a_cache_that_nobody_could_count_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "not counted" in by_name(shelf(monkeypatch).pairs)["smollm3-3b"].mark.why


@pytest.mark.parametrize(
    ("here", "name", "why"),
    [
        (CARD, "gemma3-12b", "fits the GPU as a whole"),
        (LAPTOP, "qwen3-4b", "small enough for a processor"),
        (SMALL, "smollm2-1.7b", "small enough for a processor"),
    ],
)
def test_the_suggestion_is_the_largest_that_runs_well(
    monkeypatch: pytest.MonkeyPatch, here: Capacity, name: str, why: str
) -> None:
    found = choosing.suggestion(shelf(monkeypatch, here))
    assert found is not None
    assert found.why == why
    assert found.row.pair is not None
    assert not found.row.pair.gated
    assert found.row.name == name


def test_what_only_some_may_fetch_is_not_suggested(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "config").mkdir()
    (home / "config" / "models.toml").write_text(
        "[pairs.closed]\ngated = true\n"
        'target = { repo = "o/r", file = "m.gguf", size = 3_900_000_000, kv_bytes_per_token = 1 }\n'
    )
    found = choosing.suggestion(shelf(monkeypatch))
    assert found is not None
    assert found.row.name == "qwen3-4b"


def test_nothing_is_suggested_where_nothing_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choosing.suggestion(shelf(monkeypatch, Capacity((), 100_000_000))) is None


def test_every_word_of_the_filter_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = shelf(monkeypatch, CARD).pairs
    assert {row.family for row in choosing.matching(pairs, "QWEN3 draft")} == {"Qwen3"}
    assert choosing.matching(pairs, "qwen3 llama") == []
    assert all(row.mark.symbol == "✗" for row in choosing.matching(pairs, "too large"))
    assert choosing.matching(pairs, "  ") == list(pairs)


def test_files_are_models_heads_are_heads_and_what_is_broken_says_so(
    home: Path, monkeypatch: pytest.MonkeyPatch, models: Models
) -> None:
    folder = home / "gguf"
    folder.mkdir()
    shutil.copy(models("noise_q8"), folder / "small.gguf")
    shutil.copy(models("noise_q8"), folder / "eagle3-small.gguf")
    (folder / "broken.gguf").write_bytes(b"GGUF and then nothing")
    files = by_name(shelf(monkeypatch, LAPTOP, folder).files)
    assert files["small"].is_loadable
    assert files["eagle3-small"].kind == "head"
    assert not files["eagle3-small"].is_loadable
    assert "can't be talked to" in files["eagle3-small"].mark.why
    assert files["broken"].mark[:2] == ("✗", "unusable")
    assert not files["broken"].is_loadable


def test_a_path_that_is_typed_is_a_file(home: Path, models: Models) -> None:
    shutil.copy(models("noise_q8"), home / "my model.gguf")
    row = choosing.typed("~/my model.gguf", LAPTOP)
    assert row is not None
    assert row.is_loadable
    assert row.path == str(home / "my model.gguf")
    for text in ("my model.gguf", "~/other.gguf", str(home), "qwen", ""):
        assert choosing.typed(text, LAPTOP) is None


def test_a_pair_that_is_here_can_be_loaded_without_its_draft(
    home: Path, monkeypatch: pytest.MonkeyPatch, models: Models
) -> None:
    (home / "config").mkdir()
    (home / "config" / "models.toml").write_text(
        f'[pairs.mine]\ntarget = {{ path = "{models("noise")}" }}\ndraft = {{ path = "gone.gguf" }}\n'
        '[pairs.lost]\ntarget = { path = "gone.gguf" }\n'
    )
    pairs = by_name(shelf(monkeypatch).pairs)
    assert (pairs["mine"].here, pairs["mine"].is_loadable) == ("part", True)
    assert (pairs["lost"].here, pairs["lost"].is_loadable) == ("no", False)
