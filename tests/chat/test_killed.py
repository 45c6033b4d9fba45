"""kill -9 at any moment: what was sent is there afterwards, and of a streaming answer all but the last half second.

A child process chats and reports what it has shown; it is killed somewhere in between. KILLS=200 tries more moments.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import time
from pathlib import Path

import pytest

from localspec.chat.keeper import EVERY_S, Keeper
from localspec.chat.store import Store
from localspec.conversation import Conversation
from localspec.engine.messages import Command, Generate
from tests.chat.said import Clock
from tests.tui.scripted import ScriptedClient, finished, text
from tests.tui.talk import LOAD, OPTIONS

KILLS = int(os.environ.get("KILLS", "30"))
WORD_S = 0.07  # of the child's own clock, between two words


class Reporting(ScriptedClient):
    """Reports each question the moment that the engine hears of it."""

    def __init__(self, report: int) -> None:
        super().__init__()
        self._report = report

    def send(self, command: Command) -> None:
        if isinstance(command, Generate):
            os.write(self._report, f"sent {command.messages[-1].text}\n".encode())
        super().send(command)


def chat_until_killed(file: Path, report: int) -> None:
    clock = Clock()
    client = Reporting(report)
    chat = Conversation(client, LOAD, OPTIONS, Keeper(Store(file), clock))
    chat.start()
    for event in client.poll() + client.poll():
        chat.fold(event)
    for turn in range(10_000):
        chat.submit(f"question-{turn}")
        for word in range(turn % 23):
            clock.now += WORD_S
            os.write(report, f"word {clock.now} {turn} {word}\n".encode())
            chat.fold(text(client.turn, f"w{turn}-{word} "))
            chat.keep()
        chat.fold(finished(client.turn))


def kill_one(file: Path, luck: random.Random) -> list[str]:
    """What the child had reported when it was killed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        try:
            chat_until_killed(file, writing)
        finally:
            os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as reports:
        lines = [reports.readline() for _ in range(luck.randint(1, 250))]
        time.sleep(luck.random() * 0.003)  # somewhere inside of a step
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return lines + reports.readlines()


@pytest.mark.parametrize("seed", range(KILLS))
def test_nothing_that_was_shown_as_sent_is_lost(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "sessions.db"
    lines = kill_one(file, random.Random(seed))
    assert sqlite3.connect(file).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    store = Store(file)
    assert store.notice == ""
    (row,) = store.sessions()
    session = store.read(row.id)
    said = {node.message.text for node in session.nodes() if node.message}
    written = "".join(node.answer.text for node in session.answers() if node.answer)
    assert {line.split()[1] for line in lines if line.startswith("sent")} <= said
    words = [line.split()[1:] for line in lines if line.startswith("word")]
    latest = float(words[-1][0]) if words else 0.0
    # The last word that was reported may not have been shown yet, so the one before it counts.
    for at, turn, word in words:
        if float(at) <= latest - EVERY_S - WORD_S:
            assert f"w{turn}-{word} " in written
    assert [hit.node for hit in store.search("question")]
    store.close()
