"""The file of the sessions: killed while it is written, damaged, full, locked, shared, of another version."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from faults.attack import Case, Trial, attack
from localspec.chat.store import Store
from localspec.chat.text import visible
from localspec.errors import LocalspecError
from tests.chat.said import Kept
from tests.chat.test_killed import test_nothing_that_was_shown_as_sent_is_lost as one_kill

_DOOR = "The store"


@attack(_DOOR, "kill -9 while it is written", brief=10)
def killed(trial: Trial) -> Iterator[Case]:
    for seed in range(200):
        folder = trial.folder / f"{seed}"
        folder.mkdir()
        wrong = None
        try:
            one_kill(folder, 10_000 + seed)
        except AssertionError as error:
            wrong = str(error)[:300]
        yield f"kill {seed}", wrong
        shutil.rmtree(folder)


def _sound(folder: Path) -> Path:
    file = folder / "sound.db"
    for number in range(3):
        kept = Kept(file)
        for turn in range(12):
            kept.ask(f"question {number} {turn} " * 20, "an answer of several words " * 30)
        kept.keeper.close()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return file


def _flip(data: bytearray, luck: Random) -> None:
    for _ in range(luck.choice((1, 3, 20, 200))):
        data[luck.randrange(len(data))] = luck.randrange(256)


def _zero_page(data: bytearray, luck: Random) -> None:
    at = 4096 * luck.randrange(len(data) // 4096)
    data[at : at + 4096] = bytes(4096)


def _cut(data: bytearray, luck: Random) -> None:
    del data[luck.randrange(len(data)) :]


def _swap(data: bytearray, luck: Random) -> None:
    here, there = (4096 * luck.randrange(len(data) // 4096) for _ in range(2))
    data[here : here + 4096], data[there : there + 4096] = data[there : there + 4096], data[here : here + 4096]


def _head(data: bytearray, luck: Random) -> None:
    data[luck.randrange(100)] = luck.randrange(256)


@attack(_DOOR, "a damaged file", brief=40)
def damaged(trial: Trial) -> Iterator[Case]:
    sound = _sound(trial.folder).read_bytes()
    changes: tuple[Callable[[bytearray, Random], None], ...] = (_flip, _zero_page, _cut, _swap, _head)
    for number in range(200):
        change = changes[number % len(changes)]
        data = bytearray(sound)
        change(data, trial.luck)
        folder = trial.folder / f"{number}"
        folder.mkdir()
        (folder / "sessions.db").write_bytes(data)
        yield f"{change.__name__} {number}", _used(folder / "sessions.db")
        shutil.rmtree(folder)


def _used(file: Path) -> str | None:
    """Everything that a chat does with the file; what went wrong."""
    try:
        kept = Kept(file)
    except LocalspecError:
        return None
    except Exception as error:
        return f"opening: {error!r}"
    try:
        _look(kept.keeper.store)
        kept.ask("one more question", "and its answer")
        kept.clock.now += 60
        kept.keeper.keep(kept.session)
        if kept.keeper.saved and not _holds(kept, "one more question") and _whole(file):
            return "a message that was said to be saved is not there"
    except Exception as error:
        return f"using it: {error!r}"
    finally:
        kept.keeper.store.close()
    return None


def _holds(kept: Kept, text: str) -> bool:
    return text in [node.message.text for node in kept.read().nodes() if node.message]


def _whole(file: Path) -> bool:
    """Damage that SQLite does not meet on its way can hide what is written; nobody can promise more."""
    with sqlite3.connect(file) as database:
        return database.execute("PRAGMA integrity_check(1)").fetchall() == [("ok",)]


def _look(store: Store) -> None:
    try:
        for row in store.sessions():
            visible(row.title + row.model)
            try:
                for answer in store.read(row.id).answers():
                    assert answer.answer is not None
                    answer.answer.rounds, answer.answer.pieces  # noqa: B018 - read when it is looked at
            except LocalspecError:
                pass
        store.search("question several")
    except LocalspecError:
        pass


_WRITING = """
import resource, sys
from pathlib import Path
from tests.chat.said import Kept
kept = Kept(Path(sys.argv[1]))
kept.ask("before", "words " * 10)
if sys.argv[3] != "0":
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
print("ready", flush=True); sys.stdin.readline()
for turn in range(int(sys.argv[2])):
    kept.ask(f"{sys.argv[4]} {turn} " + "long " * 50, "words " * 200)
    kept.clock.now += 100
print(kept.keeper.saved, len(kept.keeper.notices), flush=True)
"""


def _writer(file: Path, turns: int, name: str, most: int = 0) -> subprocess.Popen[str]:
    root = str(Path(__file__).parent.parent)
    command = [sys.executable, "-c", _WRITING, str(file), str(turns), str(most), name]
    environment = {**os.environ, "PYTHONPATH": root}
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


@attack(_DOOR, "no room, no right, no file", brief=1)
def refused(trial: Trial) -> Iterator[Case]:
    for most in (90_000, 150_000, 300_000):
        file = trial.folder / f"full{most}.db"
        with _writer(file, 40, "full", most) as writer:
            out, err = writer.communicate("\n", timeout=60)
        wrong = None if "False" in out and writer.returncode == 0 else f"{out!r} {err[-300:]!r}"
        store = Store(file)
        kept = [node.message.text for node in store.read(store.sessions()[0].id).nodes() if node.message]
        yield f"a file may have {most} bytes", wrong or (None if "before" in kept else "what was saved is gone")
    file = trial.folder / "held.db"
    Kept(file).ask("one", "answer")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    began, kept_ = time.monotonic(), None
    try:
        kept_ = Kept(file)
        kept_.ask("two", "answer")
        wrong = "nothing was said" if kept_.keeper.saved else None
    except LocalspecError:
        wrong = None
    other.close()
    yield "locked by another program", wrong or ("it took too long" if time.monotonic() - began > 3 else None)
    yield from _versions(trial)


def _versions(trial: Trial) -> Iterator[Case]:
    for version in (2, 99, 2**31 - 1, -1):
        file = trial.folder / f"version{version}.db"
        Kept(file).keeper.close()
        with sqlite3.connect(file) as database:
            database.execute(f"PRAGMA user_version = {version}")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        before = hashlib.sha256(file.read_bytes()).digest()
        try:
            Store(file)
            wrong = f"version {version} was opened" if version > 0 else None
        except LocalspecError:
            wrong = None
        except Exception as error:
            wrong = repr(error)
        if version > 0 and hashlib.sha256(file.read_bytes()).digest() != before:
            wrong = "it was changed"
        yield f"version {version}", wrong


@attack(_DOOR, "several instances at once", brief=1)
def together(trial: Trial) -> Iterator[Case]:
    for number in range(trial.few(3, 1)):
        file = trial.folder / f"shared{number}.db"
        turns, writers = trial.few(40, 10), []
        for name in "abcd":
            writers.append(_writer(file, turns, name))
            assert writers[-1].stdout is not None
            writers[-1].stdout.readline()
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("\n")
            writer.stdin.flush()
        if number == 1:
            time.sleep(0.3)
            writers[0].send_signal(signal.SIGKILL)
        outs = [writer.communicate(timeout=100) for writer in writers]
        wrong = None
        alive = outs[1:] if number == 1 else outs
        if any("True" not in out for out, _ in alive):
            wrong = str([(out, err[-200:]) for out, err in alive])
        store = Store(file)
        said = [sum(1 for node in store.read(row.id).nodes() if node.message) for row in store.sessions()]
        if sorted(said)[-len(alive) :] != [turns + 1] * len(alive):
            wrong = wrong or f"they hold {said} messages"
        yield f"four that write, {number}", wrong
