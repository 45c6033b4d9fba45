"""`localspec chat` and its file of sessions: --continue, --session, and what happens when the file is of no use."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from localspec.chat.store import Store
from tests.test_run import PROGRAM


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "localspec" / "sessions.db"


def chat(file: Path, noise: str, text: str, *flags: str) -> subprocess.CompletedProcess[str]:
    data = file.parent.parent
    model = ("--target", noise, "--threads", "1", "--n-ctx", "512", "--max-tokens", "4", "--seed", "1")
    return subprocess.run(
        [*PROGRAM, "chat", "--plain", *model, *flags],
        input=text,
        env=os.environ | {"HOME": str(data), "XDG_DATA_HOME": str(data)},
        cwd=file.parent.parent.parent,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_a_session_goes_on_with_its_words_and_settings(file: Path, noise: str) -> None:
    assert chat(file, noise, "one\n", "--system", "Be brief.", "--top-k", "7").returncode == 0
    assert chat(file, noise, "two\n", "--continue", "--temperature", "0").returncode == 0
    (row,) = Store(file).sessions()
    session = Store(file).read(row.id)
    assert [node.message.text for node in session.path if node.message] == ["one", "two"]
    assert session.system == "Be brief."
    assert session.sampling is not None
    assert (session.sampling.top_k, session.sampling.temperature) == (7, 0)
    assert chat(file, noise, "three\n", "--session", row.id[:6]).returncode == 0
    assert len(Store(file).read(row.id).path) == 6


@pytest.mark.parametrize(
    ("flags", "said", "code"),
    [
        (("--continue",), "There is no session to go on with yet", 1),
        (("--session", "x"), "There is no session to go on with yet", 1),
        (("--session", "x", "--continue"), "two ways to name one session", 2),
    ],
)
def test_there_must_be_something_to_go_on_with(
    file: Path, noise: str, flags: tuple[str, ...], said: str, code: int
) -> None:
    result = chat(file, noise, "", *flags)
    assert said in result.stderr
    assert result.returncode == code


def test_a_newer_file_leaves_a_chat_that_is_not_saved(file: Path, noise: str) -> None:
    file.parent.mkdir(parents=True)
    database = sqlite3.connect(file)
    database.execute("PRAGMA user_version = 99")
    database.close()
    before = file.read_bytes()
    result = chat(file, noise, "one\n/stats\n")
    assert result.returncode == 0
    assert "a newer localspec wrote it" in result.stderr
    assert "not saved" in result.stderr
    assert "4 tokens" in result.stderr
    assert file.read_bytes() == before
    assert chat(file, noise, "", "--continue").returncode == 1


def test_a_folder_that_cannot_be_made_leaves_a_chat_that_is_not_saved(file: Path, noise: str) -> None:
    file.parent.parent.mkdir()
    file.parent.write_text("in the way")
    result = chat(file, noise, "one\n/stats\n")
    assert result.returncode == 0
    assert "not saved" in result.stderr
    assert "4 tokens" in result.stderr
    assert "Traceback" not in result.stderr
