"""`localspec models` and --dry-run: what is said about pairs and files on machines that are made up."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from localspec import catalog, config
from localspec.cli import app
from localspec.engine import placing
from localspec.fit import capacity
from localspec.fit.plan import HOST_RESERVE, Capacity, Gpu
from tests import ggufs
from tests.conftest import Models

GB = 1_000_000_000
PAIRS = """
[pairs.mine]
title = "Mine"
methods = ["draft"]
target = { path = "target.gguf" }
draft = { path = "draft.gguf" }

[pairs.lost]
target = { path = "gone.gguf" }
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without models, on a machine with 20 GB and no GPU."""
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setattr(config, "config_dir", lambda: tmp_path / "config")
    monkeypatch.setattr(catalog, "config_dir", lambda: tmp_path / "config")
    monkeypatch.setattr(config, "cache_dir", lambda: tmp_path / "cache")
    (tmp_path / "config").mkdir()
    machine(monkeypatch, Capacity((), 20 * GB, "the engine saw no GPU when it last ran"))
    return tmp_path


def machine(monkeypatch: pytest.MonkeyPatch, found: Capacity) -> None:
    monkeypatch.setattr(capacity, "capacity", lambda: found)
    monkeypatch.setattr(placing, "capacity", lambda: found)


def run(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.stdout


def rows(*words: str) -> dict[str, str]:
    """The line of each pair."""
    lines = run("models", *words).split("\n\n")[0].splitlines()[1:]
    return {line.split()[0]: line for line in lines}


def document(*words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("models", "--json", *words))
    return found


def test_each_pair_has_a_row_that_says_whether_it_is_here_and_fits() -> None:
    found = rows()
    assert found.keys() == catalog.load_pairs().keys()
    assert found["qwen3-4b"].split(maxsplit=6) == [
        *("qwen3-4b", "3.1", "GB", "draft,", "lookup", "no"),
        "yes, in host memory",
    ]
    assert "no: takes 4" in found["llama3.3-70b"]


def test_a_gpu_takes_what_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, Capacity((Gpu("CUDA0", 12 * GB, 16 * GB),), 60 * GB, "as nvidia-smi says"))
    found = rows()
    assert "yes, on the GPU" in found["qwen3-8b"]
    assert "partly, " in found["qwen3-32b"] and "% on the GPU" in found["qwen3-32b"]
    assert "CUDA0 with 12.0 GB free (as nvidia-smi says)" in run("models")


def test_a_longer_context_may_be_too_much(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, Capacity((), 9 * GB, ""))
    assert "yes" in rows()["qwen3-8b"]
    assert "no: takes" in rows("--n-ctx", "32768")["qwen3-8b"]
    (home / "config/config.toml").write_text("n_ctx = 32768")
    assert "no: takes" in rows()["qwen3-8b"] and "yes" in rows("--n-ctx", "4096")["qwen3-8b"]


def test_what_is_not_known_is_not_said_to_fit_without_a_mark() -> None:
    assert rows()["phi4-mini"].endswith("yes, in host memory*")
    assert "* its cache is not counted" in run("models")


def test_the_users_pairs_are_listed_with_what_is_here_of_them(home: Path) -> None:
    (home / "config/models.toml").write_text(PAIRS)
    assert " no   ? nobody says how large it is" in rows()["mine"]
    ggufs.noise(home / "config/target.gguf")
    assert " part " in rows()["mine"] and "yes, in host memory" in rows()["mine"]
    ggufs.noise(home / "config/draft.gguf")
    assert " yes  yes, in host memory" in rows()["mine"]
    assert " no " in rows()["lost"]


def test_files_of_other_programs_are_listed_with_their_paths(home: Path, models: Models) -> None:
    folder = home / ".lmstudio/models/me/repo"
    folder.mkdir(parents=True)
    (folder / "model.gguf").write_bytes(Path(models("noise")).read_bytes())
    (folder / "page.gguf").write_text("<html>")
    lines = run("models").splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("model (LM Studio)"))
    assert lines[at].endswith("yes, in host memory")
    assert lines[at + 1] == "    ~/.lmstudio/models/me/repo/model.gguf"
    assert any("? it is a web page, not a model" in line for line in lines)


@pytest.mark.parametrize(
    ("arch", "extra", "said"),
    [
        ("eagle3", {}, "? a draft head"),
        ("clip", {}, "? no model by itself"),
        ("llama", {"general.type": "adapter"}, "? no model by itself"),
        ("bert", {"$.attention.causal": False}, "? an embedding model"),
    ],
)
def test_what_cannot_chat_is_no_model_that_fits(home: Path, arch: str, extra: dict[str, Any], said: str) -> None:
    (home / ".lmstudio/models").mkdir(parents=True)
    ggufs.write(home / ".lmstudio/models/model.gguf", arch, {"$.block_count": 1, **extra}, {"x": ggufs.ones(4)})
    assert said in run("models")


def test_folders_of_ones_own_come_from_the_config_file(home: Path) -> None:
    for name in ("a", "b"):
        (home / name).mkdir()
        ggufs.noise(home / name / f"{name}.gguf")
    (home / "config/config.toml").write_text(f"model_dirs = '{home / 'a'}:~/b'".replace("\\", "/"))
    assert [file["name"] for file in document()["files"]] == ["a", "b"]


def test_a_name_cannot_act_on_the_terminal(home: Path) -> None:
    (home / ".lmstudio/models").mkdir(parents=True)
    ggufs.noise(home / ".lmstudio/models/\x1b[31mred.gguf")
    assert "\x1b" not in run("models") and "[31mred" in run("models")


@pytest.mark.parametrize("gpus", [(), (Gpu("CUDA0", 12 * GB, 16 * GB), Gpu("CUDA1", 12 * GB, 16 * GB))])
def test_it_is_readable_at_80_columns(home: Path, monkeypatch: pytest.MonkeyPatch, gpus: tuple[Gpu, ...]) -> None:
    machine(monkeypatch, Capacity(gpus, 20 * GB, "as nvidia-smi says"))
    (home / ".lmstudio/models").mkdir(parents=True)
    ggufs.noise(home / ".lmstudio/models" / f"{'long-' * 12}name.gguf")
    lines = [line for line in run("models").splitlines() if not line.startswith("    ~")]
    assert max(map(len, lines)) <= 80


def test_json_has_every_figure(home: Path) -> None:
    found = document("--n-ctx", "4096")
    assert (found["schema"], found["n_ctx"]) == ("localspec.models/1", 4096)
    assert found["memory"] == {"host_free": 20 * GB, "gpus": [], "source": "the engine saw no GPU when it last ran"}
    pair = next(pair for pair in found["pairs"] if pair["name"] == "qwen3-4b")
    assert pair["fits"] == "cpu" and pair["here"] == "no" and pair["plan"]["n_ctx"] == 4096
    assert pair["bytes"] == 3_139_000_000 and pair["target"]["repo"] == "unsloth/Qwen3-4B-GGUF"
    big = next(pair for pair in found["pairs"] if pair["name"] == "llama3.3-70b")
    assert big["fits"] == "too large" and "are free" in big["reason"]


def test_a_dry_run_shows_the_plan_and_loads_nothing(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was loaded")

    monkeypatch.setattr("localspec.llama.load.open_model", refuse)
    for command in (["chat"], ["run", "hello"], ["verify"]):
        said = run(*command, "--target", noise, "--draft", noise, "--dry-run")
        assert "noise.gguf" in said and "2,048 tokens, K and V cache in q8_0" in said and "cpu: it takes" in said
        assert "Draft" in said


def test_a_dry_run_of_what_would_be_refused_says_what_would_fit(
    noise: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, Capacity((), HOST_RESERVE))
    said = run("chat", "--target", noise, "--dry-run", code=1)
    assert "too large" in said and "localspec models" in said
    assert "too large" in run("chat", "--target", noise, "--dry-run", "--gpu-layers", "0")


def test_a_dry_run_says_that_a_draft_would_be_left_out(noise: str, home: Path) -> None:
    assert "can't be read, and would be left out" in run(
        "chat", "--target", noise, "--draft", str(home / "gone.gguf"), "--dry-run"
    )


def test_a_dry_run_for_programs(noise: str) -> None:
    found = json.loads(run("run", "hello", "--target", noise, "--dry-run", "--json", "--n-ctx", "512"))
    assert found["schema"] == "localspec.plan/1" and found["plan"]["n_ctx"] == 512
    assert found["target"] == noise and found["remedy"] is None


def test_the_plan_of_a_dry_run_is_that_of_the_load(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Capacity((Gpu("CUDA0", 16 * GB, 16 * GB),), 20 * GB)
    machine(monkeypatch, here)
    found = json.loads(run("run", "x", "--target", noise, "--dry-run", "--json"))
    assert found["plan"]["target_layers"] == 3 and found["plan"]["verdict"] == "gpu"
    machine(monkeypatch, replace(here, gpus=()))
    assert json.loads(run("run", "x", "--target", noise, "--dry-run", "--json"))["plan"]["verdict"] == "cpu"
