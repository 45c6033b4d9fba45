"""`localspec chat` on a real terminal with the demo model, as a person would use it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.timeout(240)]

# No end token can come: an answer lasts until it is stopped, on a fast machine too.
ENDLESS = ("--temperature", "0", "--ban-token", "0", "--ban-token", "2", "--ban-token", "4")
Open = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path, demo_model: str) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*arguments: str, columns: int = 120, lines: int = 36) -> Terminal:
        opened.append(Terminal(("chat", *arguments), tmp_path, columns, lines))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def tokens_on(screen: str) -> int:
    """The token count of the last footer."""
    counts = re.findall(r"([\d,]+) tokens ·", screen)
    return int(counts[-1].replace(",", "")) if counts else 0


def test_a_first_chat(terminal: Open, tmp_path: Path) -> None:
    chat = terminal(*ENDLESS)
    chat.until("context 8,192")
    chat.type("Count from one to two hundred in words.\r")
    chat.until("You")
    chat.until(lambda screen: "method auto" in screen and re.search(r"SPEED +[\d.]+ tok/s", screen), "a speed")
    chat.type("\x14")  # Ctrl+T: the other method, in mid-answer
    chat.until("method off")
    chat.until(lambda screen: re.search(r"off +[1-9]\d* ", screen.partition("SEGMENTS")[2]), "a second segment")
    chat.type("\x1b")
    screen = chat.until("stopped ·")
    assert tokens_on(screen) > 0
    chat.type("\x13")
    chat.until("Statistics exported")
    (exported,) = tmp_path.glob("localspec-*.json")
    report = json.loads(exported.read_text())
    (answer,) = report["answers"]
    assert answer["finish_reason"] == "cancelled"
    assert [segment["method"] for segment in answer["segments"]] == ["auto", "off"]
    for row in (answer["speculation"], *answer["segments"]):
        assert row["emitted"] == row["accepted"] + row["rounds"] - row["cut"]
    assert answer["speculation"]["emitted"] == answer["completion_tokens"] > 0
    assert list(tmp_path.glob("localspec-*.csv"))
    chat.type("\x11")
    assert chat.wait() == 0


def test_engine_killed_in_mid_answer_keeps_the_answer_and_reloads(terminal: Open) -> None:
    chat = terminal(*ENDLESS)
    chat.until("context 8,192")
    chat.type("Count from one to two hundred in words.\r")
    chat.until(lambda screen: re.search(r"SPEED +[\d.]+ tok/s", screen), "a speed")
    (engine,) = engines_of(chat.pid)
    os.kill(engine, signal.SIGKILL)
    screen = chat.until("The engine stopped")
    assert "SIGKILL" in screen
    assert "one" in screen.lower()
    chat.type("\x0c")  # Ctrl+L
    chat.until(lambda screen: "engine stopped · F8" not in screen and "loading" not in screen, "a loaded model")
    chat.type("Say hello.\r")
    chat.until(
        lambda screen: screen.count("tok/s") >= 2 and "hello" in screen.lower(), "an answer after the reload"
    )


def test_small_terminal_and_no_colour(terminal: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    chat = terminal("--max-tokens", "20", columns=60, lines=15)
    chat.until("F3")
    chat.type("Hello!\r")
    chat.until(lambda screen: "tok/s" in screen, "an answer")
    chat.resize(100, 30)
    chat.until("SPEED")
    chat.type("\x11")
    assert chat.wait() == 0


def test_without_a_terminal_it_is_the_line_chat(tmp_path: Path, demo_model: str) -> None:
    import subprocess

    from tests.test_run import PROGRAM

    result = subprocess.run(
        [*PROGRAM, "chat", "--max-tokens", "12", "--seed", "1"],
        input="Hello!\n/method off\nAnd again.\n/stats\n/nonsense\n/export\n"
        "/tokens\n/race\n/trace\n/export conversation talk.md\n",
        env=os.environ | {"HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.strip().splitlines()) >= 2
    assert "no command named 'nonsense'" in result.stderr
    assert "Method off" in result.stderr
    assert "Traceback" not in result.stderr
    assert list(tmp_path.glob("localspec-*.json"))
    assert "without a mark: plain decoding" in result.stderr
    assert re.search(r"plain: \d+ tokens in .* tok/s\nauto: .*\nauto .* against plain .*x\n", result.stderr)
    (trace,) = tmp_path.glob("*.trace.jsonl")
    assert json.loads(trace.read_text().splitlines()[0])["prompt"] == "And again."
    assert "## You\n\nAnd again." in (tmp_path / "talk.md").read_text()


def test_the_line_chat_on_a_terminal(terminal: Open) -> None:
    chat = terminal("--plain", *ENDLESS)
    chat.until("Type a message")
    chat.type("Count from one to two hundred in words.\r")
    chat.until(lambda screen: len(screen.split()) > 50, "some words of an answer")
    chat.type("\x03")
    chat.until("stopped ·")
    chat.type("/copy\r")
    assert "52;c;" not in chat.until("Copied the answer"), "it is for the terminal, not for the eye"
    chat.type("/race\r")
    chat.until("1 of 2: plain is written")
    chat.type("\x03")
    chat.until("The race was stopped.")
    chat.type("/quit\r")
    assert chat.wait() == 0


def engines_of(pid: int) -> list[int]:
    """The engine among the children of a process; the other one is multiprocessing's own tracker."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(c) for c in children if b"spawn_main" in Path(f"/proc/{c}/cmdline").read_bytes()]
