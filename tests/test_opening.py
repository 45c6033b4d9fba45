"""From a choice on the screen to what the engine is asked for: the flags of the command line still hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec import catalog, config
from localspec.catalog import NotHere
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags, SpeculationFlags
from localspec.opening import Choice, Opening
from tests.conftest import Models

PAIRS = """
[pairs.mine]
title = "Mine 4B"
sampling = {{ temperature = 0.3 }}
target = {{ path = "{target}" }}
draft = {{ repo = "owner/away", file = "away.gguf" }}
[pairs.away]
target = {{ repo = "owner/away", file = "away.gguf" }}
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models: Models) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    for module in (config, catalog):
        monkeypatch.setattr(module, "config_dir", lambda: tmp_path)
    (tmp_path / "models.toml").write_text(PAIRS.format(target=models("noise")))


def opening(**model: object) -> Opening:
    flags = ModelFlags(**{"target": "/started/with.gguf", "draft": "/its/draft.gguf", "n_ctx": 2048} | model)  # type: ignore[arg-type]
    return Opening(flags, SpeculationFlags(method="lookup"), SamplingFlags(top_k=7), AnswerFlags(max_tokens=5))


def test_files_of_the_command_line_are_forgotten_and_everything_else_holds(models: Models) -> None:
    load, options = opening().chosen(Choice(pair="mine"))
    assert (load.target.path, load.target.n_ctx) == (models("noise"), 2048)
    assert load.draft is None  # the pair's own is not here, and nobody asked for it
    assert (options.title, options.method, options.max_tokens) == ("Mine 4B", "lookup", 5)
    assert (options.sampling.temperature, options.sampling.top_k) == (0.3, 7)
    assert options.recommended == {"temperature": 0.3}


def test_a_file_with_a_draft_and_a_method_of_the_choice() -> None:
    load, options = opening(target=None, pair="demo").chosen(
        Choice(None, "/m/big-Q4.gguf", "/m/small.gguf", "auto")
    )
    assert (load.target.path, load.draft and load.draft.path) == ("/m/big-Q4.gguf", "/m/small.gguf")
    assert (options.title, options.method, options.recommended) == ("big-Q4", "auto", {})


def test_the_draft_of_a_configuration_of_another_engine_is_one_of_those_files() -> None:
    flags = SpeculationFlags(speculative_config='{"method": "draft_model", "model": "/old/draft.gguf"}')
    load, _ = Opening(ModelFlags(), flags, SamplingFlags(), AnswerFlags()).chosen(Choice(None, "/m/big.gguf"))
    assert load.draft is None


def test_a_pair_whose_target_is_not_here_is_refused() -> None:
    with pytest.raises(NotHere, match="not on this machine"):
        opening().chosen(Choice(pair="away"))
