"""What could draft for a target: which files are looked at, the verdicts, and their order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from localspec import catalog
from localspec.catalog import FileRef, Pair
from localspec.shelf import drafts
from localspec.shelf.drafts import ABSENT, FITS, REFUSED, TRANSLATED, WITHOUT, Draft
from tests.conftest import Models


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Models) -> Path:
    """A target of 32-bit numbers, a smaller one of its family, the target again, and what is no model."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(catalog, "load_pairs", lambda: {})
    made = tmp_path / "gguf"
    made.mkdir()
    shutil.copy(models("noise"), made / "target.gguf")
    shutil.copy(models("noise_q8"), made / "small.gguf")
    shutil.copy(models("noise_add_bos"), made / "other.gguf")
    (made / "broken.gguf").write_bytes(b"GGUF")
    return made


def verdicts(folder: Path, pair: Pair | None = None) -> dict[str, Draft]:
    target = str(folder / "target.gguf")
    return {each.name: each for each in drafts.judged(target, drafts.candidates(target, pair, (folder,)))}


def test_each_file_has_a_verdict_and_the_target_itself_none(folder: Path) -> None:
    found = verdicts(folder)
    assert found.keys() == {"small", "other", "broken"}
    assert found["small"].rank == FITS
    assert found["small"].said.startswith("draft: the same vocabulary")
    assert found["broken"].rank == REFUSED
    assert found["broken"].said


def test_a_file_that_is_no_smaller_is_refused_unless_the_pair_names_it(folder: Path) -> None:
    assert verdicts(folder)["other"].said == drafts.NO_SMALLER
    own = Pair("p", "P", FileRef(path="t"), FileRef(path=str(folder / "other.gguf")))
    assert verdicts(folder, own)["other"].rank == TRANSLATED


def test_the_draft_of_the_pair_is_looked_at_first_and_once(folder: Path) -> None:
    own = Pair("p", "P", FileRef(path="t"), FileRef(path=str(folder / "small.gguf")))
    files = drafts.candidates(str(folder / "target.gguf"), own, (folder,))
    assert files[0].name == "small"
    assert [file.name for file in files].count("small") == 1


def test_a_draft_that_is_not_here_can_be_fetched(folder: Path) -> None:
    own = Pair("p", "P", FileRef(path="t"), FileRef(repo="o/r", file="tiny.gguf", size=7))
    (row,) = drafts.absent(own)
    assert (row.rank, row.name, row.size) == (ABSENT, "tiny.gguf", 7)
    assert drafts.absent(Pair("p", "P", FileRef(path="t"), FileRef(path=str(folder / "small.gguf")))) == ()
    assert drafts.absent(Pair("p", "P", FileRef(path="t"))) == ()


def test_doing_without_is_a_choice_of_method() -> None:
    assert [each.method for each in drafts.DOING_WITHOUT] == ["auto", "lookup", "suffix", "off"]
    assert {(each.rank, each.path) for each in drafts.DOING_WITHOUT} == {(WITHOUT, None)}
