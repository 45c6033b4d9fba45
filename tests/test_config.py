from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from localspec import config
from localspec.config import Config, load, settings
from localspec.engine.messages import Generate
from localspec.errors import LocalspecError, UnknownName, UsageError
from localspec.spec.settings import Sampling


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def refusal(file: Path, text: str) -> LocalspecError:
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        load(env={}, file=file)
    return caught.value


def test_without_any_settings_the_defaults_are_those_of_the_engine(file: Path) -> None:
    found = load(env={}, file=file)
    assert found == Config()
    assert found.sampling == Sampling()
    generate = Generate(turn=0)
    assert (found.method, found.verifier) == (generate.method, generate.verifier)
    assert found.draft_tokens == "auto"
    assert generate.draft_tokens is None


def test_file_then_environment_then_flags(file: Path) -> None:
    file.write_text("top_k = 1\nseed = 1\nthreads = 1\n")
    env = {"LOCALSPEC_SEED": "2", "LOCALSPEC_THREADS": "2", "HOME": "/nowhere"}
    found = settings({"threads": 3, "seed": None}, env=env, file=file)
    assert {name: (found[name].value, found[name].origin) for name in ("top_p", "top_k", "seed", "threads")} == {
        "top_p": (0.95, "default"),
        "top_k": (1, str(file)),
        "seed": (2, "LOCALSPEC_SEED"),
        "threads": (3, "--threads"),
    }
    assert load({"threads": 3}, env=env, file=file) == Config(top_k=1, seed=2, threads=3)


def test_an_empty_variable_is_not_set(file: Path) -> None:
    assert load(env={"LOCALSPEC_SEED": ""}, file=file).seed is None


def test_the_files_own_place_is_the_config_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "config_dir", lambda: tmp_path)
    (tmp_path / "config.toml").write_text("method = 'off'")
    assert load(env={}).method == "off"


@pytest.mark.parametrize("value", ["0", "0.7"])
def test_a_whole_number_is_a_number(file: Path, value: str) -> None:
    file.write_text(f"temperature = {value}")
    assert load(env={}, file=file).temperature == float(value)
    assert load(env={"LOCALSPEC_TEMPERATURE": value}, file=file).temperature == float(value)


def test_a_broken_file_is_named_with_the_line(file: Path) -> None:
    error = refusal(file, "top_k = 1\n\nseed = = 2\n")
    assert str(file) in error.message and "line 3" in error.message


def test_an_unknown_key_suggests_the_nearest(file: Path) -> None:
    error = refusal(file, "temprature = 1")
    assert isinstance(error, UnknownName)
    assert str(file) in error.message and "temprature" in error.message and "'temperature'" in error.hint


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("temperature = 'warm'", "a number"),
        ("top_k = 1.5", "a whole number"),
        ("seed = true", "a whole number"),
        ("system = 3", "a text"),
        ("flash_attn = 'maybe'", "'auto' or 'on' or 'off'"),
        ("flash_attn = false", "'auto' or 'on' or 'off'"),
        ("n_ctx = [1]", "a whole number"),
    ],
)
def test_a_wrong_type_is_named(file: Path, line: str, wanted: str) -> None:
    error = refusal(file, line)
    assert str(file) in error.message and line.split(maxsplit=1)[0] in error.message and wanted in error.message


@pytest.mark.parametrize(
    ("line", "range_"),
    [
        ("temperature = -1", "at least 0"),
        ("top_p = nan", "above 0"),
        ("n_ctx = 0", "at least 1"),
        ("gpu_layers = -2", "at least -1"),
        ("draft_tokens = -1", "at least 0"),
    ],
)
def test_a_value_out_of_range_is_named_with_the_range(file: Path, line: str, range_: str) -> None:
    error = refusal(file, line)
    assert str(file) in error.message and line.split(maxsplit=1)[0] in error.message and range_ in error.hint


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("LOCALSPEC_TEMPRATURE", "1", "'LOCALSPEC_TEMPERATURE'"),
        ("LOCALSPEC_SEED", "x", "a whole number"),
        ("LOCALSPEC_SEED", "1.5", "a whole number"),
        ("LOCALSPEC_TOP_P", "high", "a number"),
        ("LOCALSPEC_TOP_P", "2", "at most 1"),
        ("LOCALSPEC_VERIFIER", "blok", "'block' or 'token'"),
    ],
)
def test_a_wrong_variable_is_named(file: Path, variable: str, value: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(env={variable: value}, file=file)
    assert variable in caught.value.message and said in caught.value.message + caught.value.hint


@pytest.mark.parametrize(("name", "value"), [("draft_tokens", -1), ("n_ctx", 0), ("temperature", -1)])
def test_a_flag_out_of_range_is_named(file: Path, name: str, value: int) -> None:
    with pytest.raises(UsageError) as caught:
        load({name: value}, env={}, file=file)
    assert caught.value.message == f"--{name.replace('_', '-')} is {value}."


@pytest.mark.parametrize("content", [b"\xff\xfe", None])
def test_a_file_that_cannot_be_read_is_named(file: Path, content: bytes | None) -> None:
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        load(env={}, file=file)
    assert str(file) in caught.value.message


FOLDERS = "from localspec import config as c; print(c.config_dir(), c.data_dir(), c.cache_dir(), c.log_file())"
NOBODY = "import pwd\ndef unknown(uid): raise KeyError(uid)\npwd.getpwuid = unknown\n"


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is a thing of Unix")
@pytest.mark.parametrize("prelude", ["", NOBODY])
def test_there_is_a_folder_for_everything_without_a_home(prelude: str, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", prelude + FOLDERS], check=False, env=env, capture_output=True, text=True
    )
    paths = [Path(path) for path in done.stdout.split()]
    assert len(paths) == 4, done.stderr
    assert all(path.is_absolute() and "localspec" in str(path) for path in paths)
    assert paths[3].parent.is_dir()  # the log can be opened at once


def test_a_read_only_home_does_not_keep_anybody_from_chatting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(config.platformdirs, "user_log_dir", lambda *_: str(tmp_path / "file" / "log"))
    assert config.log_file().name == "localspec.log"


def test_a_pipe_in_the_place_of_the_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "config.toml")
    with pytest.raises(UsageError, match="it is a pipe"):
        config.load(file=tmp_path / "config.toml", env={})


@pytest.mark.parametrize("text", ["seed = " + "9" * 5000, "a = " + "[" * 5000 + "]" * 5000])
def test_a_file_without_an_end_is_a_sentence(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UsageError, match=r"config\.toml"):
        config.load(file=tmp_path / "config.toml", env={})
