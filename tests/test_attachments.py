"""Files that go with a message: what is taken, how it is marked, and what is refused."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.attachments import MOST_BYTES, attach
from localspec.errors import UsageError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print('hello')\n")
    (tmp_path / "my notes.txt").write_text("one\r\ntwo")
    (tmp_path / "Makefile").write_text("all:")
    return tmp_path


def test_the_text_of_the_file_follows_the_message(folder: Path) -> None:
    assert attach("What does @src/main.py do?", folder) == (
        "What does src/main.py do?\n\nFile src/main.py:\n```py\nprint('hello')\n```"
    )


@pytest.mark.parametrize("text", ["(see @Makefile)", "@Makefile.", "@Makefile, please"])
def test_punctuation_is_the_sentences(folder: Path, text: str) -> None:
    assert "\n\nFile Makefile:\n" in attach(text, folder)


def test_a_name_with_a_blank_is_quoted(folder: Path) -> None:
    assert attach('Sum up @"my notes.txt"', folder).endswith("File my notes.txt:\n```txt\none\ntwo\n```")


def test_a_file_that_is_named_twice_goes_once(folder: Path) -> None:
    assert attach("@Makefile and @Makefile", folder).count("File Makefile:") == 1


def test_what_is_sent_again_attaches_nothing_again(folder: Path) -> None:
    (folder / "a.md").write_text("@src/main.py and @nothing/here")
    once = attach("Read @a.md", folder)
    assert attach(once, folder) == once


@pytest.mark.parametrize(
    "text",
    [
        "Ask @anna",
        "@dataclass",
        "jo@example.org",
        "@app.get(1)",
        'say "@Makefile"',
        "@pytest.fixture",
        "\n```\n@no/file.py\n```\n",
        "@",
    ],
)
def test_what_looks_like_no_file_stays(folder: Path, text: str) -> None:
    assert attach(text, folder) == text


def test_the_sign_itself(folder: Path) -> None:
    assert attach(r"\@src/main.py", folder) == "@src/main.py"


@pytest.mark.parametrize(("text", "said"), [("@src/mian.py", "src/mian.py"), ("@notes.md", "notes.md")])
def test_a_missing_file_is_named(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        attach(text, folder)


def test_a_folder_a_binary_and_a_large_file_are_refused(folder: Path) -> None:
    (folder / "b.bin").write_bytes(b"ELF\0\1")
    (folder / "l.txt").write_bytes(b"caf\xe9")
    (folder / "big.txt").write_text("x" * (MOST_BYTES + 1))
    (folder / "fits.txt").write_text("x" * MOST_BYTES)
    for name, said in (("src/", "folder"), ("b.bin", "no text"), ("l.txt", "no text"), ("big.txt", "256 KB")):
        with pytest.raises(UsageError, match=said):
            attach(f"@{name}", folder)
    assert len(attach("@fits.txt", folder)) > MOST_BYTES


@pytest.mark.parametrize("name", ["x" * 5000 + ".txt", "a\0b.txt", "a/" * 5000 + "x.txt"])
def test_what_can_not_be_a_file_stays_as_it_is(folder: Path, name: str) -> None:
    assert attach(f"see @{name}", folder) == f"see @{name}"


def test_a_pipe_is_not_waited_for(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with pytest.raises(UsageError, match="pipe is a device or a pipe"):
        attach("@pipe", folder)


def test_fences_in_a_file_do_not_end_it(folder: Path) -> None:
    (folder / "a.md").write_text("````\ncode\n````")
    assert "`````md\n````\ncode\n````\n`````" in attach("@a.md", folder)


@pytest.mark.parametrize(("name", "code", "said"), [("a.txt", 0, ""), ("b.txt", 2, "There is no file")])
def test_run_takes_files_too(tmp_path: Path, noise: str, name: str, code: int, said: str) -> None:
    (tmp_path / "a.txt").write_text("inside " * 50)
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("LOCALSPEC_", "XDG_"))}
    arguments = ("run", "Hi", "--target", noise, "--threads", "1", "--max-tokens", "2", "--json", "--file")
    command = [sys.executable, "-c", "from localspec.cli import main; main()", *arguments, str(tmp_path / name)]
    done = subprocess.run(command, env=kept | {"HOME": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert code or json.loads(done.stdout)["prompt_tokens"] > 350  # one token a byte
