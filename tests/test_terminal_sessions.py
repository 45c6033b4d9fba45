"""The real program is killed in the middle of an answer; with --continue everything that was on screen is there."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.timeout(240)]

# No end token can come: an answer lasts until it is stopped.
ENDLESS = ("--temperature", "0", "--ban-token", "0", "--ban-token", "2", "--ban-token", "4", "--threads", "1")
Open = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path, demo_model: str) -> Iterator[Open]:
    opened: list[Terminal] = []

    def start(*arguments: str) -> Terminal:
        opened.append(Terminal(("chat", *arguments), tmp_path))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


def test_resuming_after_kill_9(terminal: Open) -> None:
    chat = terminal(*ENDLESS)
    chat.until("context 8,192")
    chat.type("Count from one to two hundred in words.\r")
    before = words_on(chat.until(lambda text: tokens_on(text) > 120, "a long answer"))
    os.kill(chat.pid, signal.SIGKILL)
    chat.wait()

    again = terminal("--continue", *ENDLESS)
    screen = again.until(lambda text: "interrupted" in text and "context 8,192" in text, "the former answer")
    assert "Count from one to two hundred in words." in screen
    assert words_on(screen)[:8] == before[:8]  # further down it was being drawn
    again.type("\x0f")  # Ctrl+O
    screen = again.until("Enter opens")
    assert "Count from one to two hundred in words." in screen
    again.type("hundr")
    again.until("You in Count from one")
    again.type("\x1b")
    again.until("Write a message")
    again.type("And backwards?\r")
    again.until(lambda text: "And backwards?" in text and re.search(r"SPEED +[\d.]+ tok/s", text), "an answer")
    again.type("\x11")
    assert again.wait() == 0


def test_a_session_is_open_in_one_terminal_only(terminal: Open) -> None:
    chat = terminal(*ENDLESS)
    chat.until("context 8,192")
    chat.type("Hello!\r")
    chat.until(lambda text: len(words_on(text)) > 3, "words")
    other = terminal("--continue", *ENDLESS)
    other.until("open in another localspec")
    assert other.wait() == 2


def words_on(screen: str) -> list[str]:
    """The words of the answer: what stands beside its bar, under the name of the model, left of the panel."""
    left = [line.partition("│")[0] for line in screen.splitlines()]
    _, named, after = "\n".join(line for line in left if "▌" in line).rpartition("SmolLM2 135M Instruct")
    return re.findall(r"[A-Za-z]+", after) if named else []


def tokens_on(screen: str) -> int:
    """The token count under the answer."""
    return max((int(count) for count in re.findall(r"▌ (\d+) tokens ·", screen)), default=0)
