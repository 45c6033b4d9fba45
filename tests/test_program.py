"""The program without what it may expect: streams, files, a current folder."""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import ggufs
from tests.terminal import Terminal
from tests.test_run import PROGRAM, home

__all__ = ["home"]  # a fixture


def start(
    home: dict[str, str], *arguments: str, before: Callable[[], object] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [*PROGRAM, *arguments]
    return subprocess.run(command, env=home, capture_output=True, text=True, check=False, preexec_fn=before)


@pytest.mark.parametrize("descriptor", [0, 1, 2])
def test_a_closed_stream_does_no_harm(home: dict[str, str], noise: str, descriptor: int) -> None:
    asked = ("run", "hi", "--target", noise, "--threads", "1", "--max-tokens", "2")
    done = start(home, *asked, before=lambda: os.close(descriptor))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_current_folder_that_is_gone_is_a_sentence(home: dict[str, str], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()

    def leave() -> None:
        os.chdir(gone)
        gone.rmdir()

    done = start(home, "models", before=leave)
    assert done.returncode == 1 and "The current folder is gone" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_too_few_files_is_a_sentence(home: dict[str, str], noise: str) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))

    done = start(home, "run", "hi", "--target", noise, before=limit)
    assert done.returncode == 1 and "Too many open files" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_what_a_locale_can_not_print_ends_nothing(home: dict[str, str], tmp_path: Path, encoding: str) -> None:
    done = start(home | {"PYTHONIOENCODING": encoding}, "inspect", str(tmp_path / "☃.gguf"))
    assert done.returncode == 1 and "there is no such file" in done.stderr


def test_nothing_that_a_terminal_obeys_comes_out_of_an_error(home: dict[str, str]) -> None:
    done = start(home, "inspect", "\x1b]0;title\x07.gguf")
    assert "␛]0;title␇.gguf" in done.stderr and "\x1b" not in done.stderr


def test_json_on_a_terminal_is_shown_too(tmp_path: Path) -> None:
    """JSON spells out the escapes below 0x20 and passes on the others."""
    model = ggufs.noise(tmp_path / "m.gguf", extra={"general.name": "a\x9b31mb\u202ec"})
    shown = Terminal(["inspect", str(model), "--json"], tmp_path, lines=80)
    try:
        screen = shown.until('"drafters"')
    finally:
        shown.close()
    assert "a\N{REPLACEMENT CHARACTER}31mb\N{REPLACEMENT CHARACTER}c" in screen
