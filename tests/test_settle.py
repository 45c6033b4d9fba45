"""Settings meet here: flags, environment, file, what a pair's authors recommend, and the program's own defaults."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec.errors import UnknownName
from localspec.flags import ModelFlags, SamplingFlags
from localspec.settle import settings, settle

PAIR = """
[pairs.mine]
title = "Mine"
target = { path = "x.gguf" }
sampling = { temperature = 0.3, top_k = 7, top_p = 0.5, min_p = 0.2 }
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    own = tmp_path / "localspec"
    own.mkdir()
    (own / "models.toml").write_text(PAIR)
    return own


def test_what_the_authors_recommend_yields_to_file_environment_and_flags(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "config.toml").write_text("top_k = 1\nmin_p = 0.1\n")
    monkeypatch.setenv("LOCALSPEC_TOP_P", "0.9")
    found = settings({"pair": "mine", "min_p": 0.0})
    origins = {name: (found[name].value, found[name].origin) for name in ("temperature", "top_k", "top_p", "min_p")}
    assert origins == {
        "temperature": (0.3, "recommended by the authors of Mine"),
        "top_k": (1, str(folder / "config.toml")),
        "top_p": (0.9, "LOCALSPEC_TOP_P"),
        "min_p": (0.0, "--min-p"),
    }


def test_a_pair_brings_its_settings_and_says_nothing_about_others() -> None:
    found, _ = settle(ModelFlags(pair="mine"), SamplingFlags(top_k=3))
    assert (found.temperature, found.top_k, found.repeat_penalty) == (0.3, 3, 1.0)


def test_the_pair_of_the_config_file_counts_too(folder: Path) -> None:
    (folder / "config.toml").write_text("pair = 'mine'")
    assert settle(ModelFlags())[0].temperature == 0.3


def test_the_demo_answers_as_its_authors_recommend() -> None:
    found, _ = settle(ModelFlags())
    assert (found.temperature, found.top_p, found.top_k) == (0.2, 0.9, 40)


def test_a_file_of_ones_own_has_the_defaults() -> None:
    found, _ = settle(ModelFlags(target="x.gguf"))
    assert (found.temperature, found.top_p) == (0.8, 0.95)


def test_an_unknown_pair_is_named_at_once() -> None:
    with pytest.raises(UnknownName, match="mien"):
        settle(ModelFlags(pair="mien"))
