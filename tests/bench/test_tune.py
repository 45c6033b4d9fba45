"""The sweep: what is tried, when a setting is better, and that keeping it touches nothing else in the file."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec import config
from localspec.bench import keeping, session, tune
from localspec.bench.report import Report, Row
from localspec.bench.runner import Outcome
from localspec.bench.sample import Sample, Task
from localspec.bench.session import Request
from localspec.bench.subject import Limits
from localspec.bench.suite import Prompt, Suite
from localspec.bench.variants import Setup, grid, labels
from localspec.engine.messages import Load
from localspec.errors import LocalspecError, UsageError
from localspec.llama.model import LlamaModel
from localspec.model import ModelInfo, ModelSpec
from localspec.spec.settings import Sampling
from tests.bench.scripted import Eye, said
from tests.conftest import Models

FILE = """# my settings
temperature = 0.5
flash_attn = "auto"   # decided in May
system = \"\"\"
threads = 4
\"\"\"

[keys]
"chat.stop" = "ctrl+x"
"""


def test_a_key_is_replaced_and_its_comment_stays() -> None:
    found = keeping.edited(FILE, {"flash_attn": "off"})
    assert found == FILE.replace('"auto"   #', '"off"   #')


def test_a_new_key_goes_before_the_first_table() -> None:
    found = keeping.edited(FILE, {"cache_type_k": "f16"})
    assert tomllib.loads(found) == tomllib.loads(FILE) | {"cache_type_k": "f16"}
    assert found.replace('cache_type_k = "f16"\n', "") == FILE


def test_a_line_inside_a_text_is_no_key() -> None:
    found = keeping.edited(FILE, {"threads": 8})
    assert tomllib.loads(found) == tomllib.loads(FILE) | {"threads": 8}
    assert "\nthreads = 4\n" in found


@pytest.mark.parametrize("text", ["", "top_k = 3", "\n\n# only words\n", '"threads" = 2\n', "threads=2 # few\n"])
def test_any_file_says_what_it_said_and_the_new_values(text: str) -> None:
    found = keeping.edited(text, {"threads": 4, "flash_attn": "on"})
    assert tomllib.loads(found) == tomllib.loads(text) | {"threads": 4, "flash_attn": "on"}
    assert [line for line in text.splitlines() if "threads" not in line] == [
        line for line in found.splitlines() if "threads" not in line and "flash_attn" not in line
    ]
    assert ("# few" in text) == ("# few" in found)


def test_a_file_that_can_not_be_read_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't be read"):
        keeping.edited("threads = ", {"threads": 3})
    file = tmp_path / "config.toml"
    file.write_text("threads = ")
    with pytest.raises(UsageError):
        keeping.keep(file, {"threads": 3})
    assert file.read_text() == "threads = "
    assert [path.name for path in tmp_path.iterdir()] == ["config.toml"]


def test_values_are_checked_before_they_are_written(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "config.toml"
    keeping.keep(file, {"threads": 2, "flash_attn": "off"})
    assert config.load(env={}, file=file).threads == 2
    with pytest.raises(UsageError, match="threads"):
        keeping.keep(file, {"threads": 0})
    with pytest.raises(UsageError, match="flash_attn"):
        keeping.keep(file, {"flash_attn": "perhaps"})
    assert config.load(env={}, file=file).threads == 2


def test_a_folder_that_can_not_be_written_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalspecError, match="Cannot write"):
        keeping.keep(tmp_path / "file" / "config.toml", {"threads": 2})


def info(models: Models) -> ModelInfo:
    model = LlamaModel.load(ModelSpec(models("noise_q8"), n_ctx=256, threads=1))
    model.close()
    return model.info


def request(path: str) -> Request:
    prompts = tuple(Prompt(str(i), "chat", (f"Say {i}.",)) for i in range(6))
    load = Load(ModelSpec(path, n_ctx=256, threads=1))
    return Request("tiny", load, Suite("s", "0", prompts), prompts, Limits(Sampling(), 4))


def test_only_what_llama_cpp_can_do_is_tried(models: Models) -> None:
    found = tune.attention(Setup(threads=3), info(models))
    assert {(s.flash_attn, s.cache_type_k) for s in found} == {("on", "f16"), ("on", "bf16"), ("off", "f16")}
    assert all(setup.threads == 3 for setup in found)  # what an earlier stage has chosen
    odd = LlamaModel.load(ModelSpec(models("odd_heads"), n_ctx=256, threads=1))
    odd.close()
    assert all(setup.cache_type_k != "q8_0" for setup in tune.attention(Setup(), odd.info))


def fake_bench(costs: dict[Setup, float]) -> Any:
    """A bench whose decode takes what `costs` says, times a little noise."""

    def bench(request: Request, watch: object) -> Report:
        named, rng = labels(grid(("off",), setups=request.setups)), np.random.default_rng(1)
        samples = [
            Sample(
                label, Task(prompt.id, "chat", 1), 1, said("x", 50, float(costs[v.setup] * rng.normal(1, 0.004)))
            )
            for v, label in named.items()
            for prompt in request.prompts
        ]
        rows = [Row(label, "off") for label in named.values()]
        return Report("t", "now", {}, {}, [], rows, Outcome(samples, complete=True), 1.0)

    return bench


FA, BF16, OFF = Setup("on", "f16", "f16"), Setup("on", "bf16", "bf16"), Setup("off", "f16", "f16")


@pytest.mark.parametrize(
    ("costs", "best"),
    [
        ({Setup(): 1.0, FA: 1.5, BF16: 0.9, OFF: 0.7}, OFF),
        ({Setup(): 1.0, FA: 1.5, BF16: 1.2, OFF: 1.001}, Setup()),
        ({Setup(): 1.0, FA: 1.5, BF16: 0.99, OFF: 1.1}, Setup()),  # certain, but not worth a line in a file
    ],
)
def test_the_fastest_wins_if_it_is_faster_for_certain(
    models: Models, monkeypatch: pytest.MonkeyPatch, costs: dict[Setup, float], best: Setup
) -> None:
    path = models("noise_q8")
    monkeypatch.setattr(session, "bench", fake_bench(costs))
    monkeypatch.setattr(session, "look", lambda request, setup: info(models))
    found, lines, complete = tune.sweep(request(path), Eye(), tune.STAGES[:1])  # type: ignore[arg-type]
    assert (found, complete) == (best, True)
    assert sum("<- best" in line for line in lines) == (best != Setup())
    assert max(len(part) for line in lines for part in line.splitlines()) <= 80
    assert ("flash_attn" in tune.settings(found)) == (best != Setup())


def test_it_asks_before_it_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setattr(config, "config_file", lambda: file)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    values: dict[str, str | int] = {"flash_attn": "off", "threads": 2}
    assert "Nothing was written." in list(tune.offer(values, yes=False, ask=lambda question: "n"))
    assert not file.exists()
    said = list(tune.offer(values, yes=False, ask=lambda question: "y"))
    assert said[0] == '  flash_attn = "off"\n  threads = 2' and str(file) in said[1]
    assert tomllib.loads(file.read_text()) == values


def test_without_a_terminal_only_yes_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    monkeypatch.setattr(config, "config_file", lambda: file)
    monkeypatch.setattr("sys.stdin.isatty", lambda: False)
    assert "with --yes" in list(tune.offer({"threads": 2}, yes=False, ask=lambda question: "y"))[1]
    assert not file.exists()
    list(tune.offer({"threads": 2}, yes=True, ask=lambda question: "n"))
    assert file.exists()
