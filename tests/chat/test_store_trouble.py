"""The store meets damage, a full disk, a newer version, another instance: the chat goes on, and nothing is lost."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localspec.chat import schema
from localspec.chat.store import Store
from localspec.errors import LocalspecError, StoreError
from tests.chat.said import Kept, everything, spoken


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


@pytest.fixture
def kept(file: Path) -> Kept:
    kept = Kept(file)
    kept.ask("Why?", "Because of the long night.")
    return kept


def full(kept: Kept, *, more: int = 0) -> None:
    """No page more than so many: what a full disk is to SQLite."""
    pages = kept.keeper.store._all("PRAGMA page_count")[0][0]
    kept.keeper.store._all(f"PRAGMA max_page_count = {pages + more}")


def roomy(kept: Kept) -> None:
    kept.keeper.store._all("PRAGMA max_page_count = 1000000")


@contextmanager
def held(file: Path) -> Iterator[None]:
    """Another program writes, and does not come to an end."""
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.close()


def test_a_full_disk_is_said_once_and_everything_is_saved_later(kept: Kept) -> None:
    full(kept)
    for at in range(5):
        kept.ask(f"long {at} " * 500, "words " * 2000)
    (notice,) = kept.keeper.notices
    assert "the disk is full" in notice
    assert not kept.keeper.saved
    roomy(kept)
    kept.clock.now += 60
    kept.keeper.keep(kept.session)
    assert kept.keeper.saved
    assert "saved again" in kept.keeper.notices[1]
    assert everything(kept.read()) == everything(kept.session)


def test_a_store_that_another_program_holds_is_tried_again(kept: Kept, file: Path) -> None:
    with held(file):
        kept.ask("And then?", "Then came the day.")
        assert "another program" in kept.keeper.notices[0]
        assert len(kept.read().path) == 2  # reading goes on
    kept.ask("And now?")
    assert kept.keeper.saved
    assert everything(kept.read()) == everything(kept.session)


def test_a_failing_store_is_not_tried_at_every_word(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def fail(*_: object) -> None:
        tries.append(kept.clock.now)
        raise StoreError(None, "the disk is full")

    monkeypatch.setattr(kept.keeper.store, "write", fail)
    node = kept.ask("And then?", "Then", None)
    for _ in range(600):  # a minute of streaming
        kept.clock.now += 0.1
        node.answer.extend(*spoken("word", begin=1))
        kept.keeper.changed(kept.session, node)
        kept.keeper.keep(kept.session)
    assert len(tries) < 12
    monkeypatch.undo()
    kept.clock.now += 60
    kept.keeper.keep(kept.session)
    assert everything(kept.read()) == everything(kept.session)


def test_a_session_that_was_left_unsaved_is_saved_with_the_next_one(kept: Kept, file: Path) -> None:
    first = kept.session
    with held(file):
        kept.ask("And then?")
        kept.session = type(first)()
        kept.ask("Something else")
        assert kept.keeper.pending(first.id) is first
    kept.keeper.save(kept.session)
    assert everything(kept.keeper.store.read(first.id)) == everything(first)
    assert everything(kept.read()) == everything(kept.session)


@pytest.mark.parametrize("now", [-3600.0, 3600.0])
def test_a_clock_that_jumps_does_not_stop_the_saving(kept: Kept, now: float) -> None:
    node = kept.ask("And then?", "Then", None)
    kept.clock.now += now
    node.answer.extend(*spoken("came the day", begin=1))
    kept.keeper.changed(kept.session, node)
    kept.keeper.keep(kept.session)
    assert kept.read().path[-1].answer.text == node.answer.text


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "no database": lambda data: b"not a database at all, but long enough to be one" * 100,
    "header": lambda data: b"\0" * 100 + data[100:],
    "cut short": lambda data: data[: len(data) // 3],
    "scrambled tables": lambda data: data[:4096] + b"\xff" * (len(data) - 4096),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_file_is_kept_aside_and_a_fresh_one_begun(
    kept: Kept, file: Path, damage: Callable[[bytes], bytes]
) -> None:
    kept.keeper.close()
    broken = damage(file.read_bytes())
    file.write_bytes(broken)
    again = Kept(file)
    aside = file.with_name("sessions.db.damaged-1")
    assert aside.read_bytes() == broken
    assert str(aside) in again.keeper.notices[0]
    again.ask("Why?", "Because.")
    assert again.keeper.saved
    assert [row.title for row in Store(file).sessions()] == ["Why?"]


def test_a_file_that_is_damaged_while_it_is_open(kept: Kept, file: Path) -> None:
    kept.keeper.store._all("PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("r+b") as data:
        data.seek(4096)
        data.write(b"\xff" * (file.stat().st_size - 4096))
    kept.keeper.store._all("PRAGMA shrink_memory")
    kept.ask("And then?", "Then came the day.")
    kept.clock.now += 60
    kept.keeper.keep(kept.session)
    assert kept.keeper.saved
    assert any("damaged" in notice for notice in kept.keeper.notices)
    assert file.with_name("sessions.db.damaged-1").exists()
    assert everything(kept.read()) == everything(kept.session)


def test_a_file_that_is_deleted_while_it_is_open(kept: Kept, file: Path) -> None:
    for each in file.parent.iterdir():
        each.unlink()
    kept.ask("And then?", "Then came the day.")
    assert any("deleted" in notice for notice in kept.keeper.notices)
    assert everything(Store(file).read(kept.session.id)) == everything(kept.session)


def test_a_newer_file_is_left_as_it_is(kept: Kept, file: Path) -> None:
    kept.keeper.close()
    database = sqlite3.connect(file)
    database.execute(f"PRAGMA user_version = {len(schema.UPGRADES) + 1}")
    database.commit()
    database.close()
    before = file.read_bytes()
    with pytest.raises(StoreError, match="newer localspec"):
        Store(file)
    assert file.read_bytes() == before
    assert not file.with_name("sessions.db.damaged-1").exists()


def test_an_older_file_is_brought_up_to_date(kept: Kept, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.keeper.close()
    step = ("ALTER TABLE sessions ADD COLUMN stars INTEGER", "UPDATE sessions SET stars = 5")
    monkeypatch.setattr(schema, "UPGRADES", (*schema.UPGRADES, step))
    store = Store(file)
    assert store._all("SELECT stars FROM sessions") == [(5,)]
    assert store._all("PRAGMA user_version") == [(len(schema.UPGRADES),)]
    assert everything(store.read(kept.session.id)) == everything(kept.session)


def test_an_upgrade_that_fails_changes_nothing(kept: Kept, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept.keeper.close()
    before = len(schema.UPGRADES)
    with monkeypatch.context() as patch:
        patch.setattr(schema, "UPGRADES", (*schema.UPGRADES, ("UPDATE sessions SET title = 'lost'", "nonsense")))
        with pytest.raises(StoreError):
            Store(file)
    store = Store(file)
    assert store._all("PRAGMA user_version") == [(before,)]
    assert [row.title for row in store.sessions()] == ["Why?"]


def test_a_folder_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"sessions\.db"):
        Store(tmp_path / "file" / "sessions.db")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_can_only_be_read(tmp_path: Path, there: bool) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    if there:
        Kept(folder / "sessions.db").keeper.close()
        (folder / "sessions.db").chmod(0o400)
    folder.chmod(0o500)
    try:
        with pytest.raises(StoreError):
            Store(folder / "sessions.db")
    finally:
        folder.chmod(0o700)


OTHER = """
import sys
from pathlib import Path
from tests.chat.said import Kept
kept = Kept(Path(sys.argv[1]))
print(kept.keeper.store.claim("abc"), flush=True)
for line in sys.stdin:
    kept.ask("other " + line.strip(), "Answer " * 50)
    print(kept.keeper.saved, flush=True)
"""


@contextmanager
def another_instance(file: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", OTHER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        yield other
        other.kill()


def test_two_instances_write_side_by_side(kept: Kept, file: Path) -> None:
    with another_instance(file) as other:
        assert other.stdin and other.stdout
        other.stdout.readline()
        for at in range(20):
            other.stdin.write(f"{at}\n")
            other.stdin.flush()
            kept.ask(f"mine {at}", "words " * 50)
            assert other.stdout.readline() == "True\n"
    kept.keeper.save(kept.session)
    assert sorted(row.messages for row in kept.keeper.store.sessions()) == [40, 42]
    assert kept.keeper.store._all("PRAGMA integrity_check") == [("ok",)]


def test_a_session_belongs_to_one_instance_until_that_ends(file: Path) -> None:
    store = Store(file)
    with another_instance(file) as other:
        assert other.stdout and other.stdout.readline() == "True\n"
        assert not store.claim("abc")
        assert store.claim("abd")
        other.kill()
        other.wait()
        assert store.claim("abc")


def test_damaged_figures_leave_the_words(kept: Kept, file: Path) -> None:
    kept.keeper.close()
    with sqlite3.connect(file) as database:
        database.execute("UPDATE parts SET body = x'00112233', tokens = x'0102'")
    (answer,) = Store(file).read(kept.session.id).answers()
    assert answer.answer is not None
    assert answer.answer.token_ids == ()
    assert answer.answer.rounds == []
    assert answer.answer.text == "Because of the long night. "


@pytest.mark.parametrize(
    "damage",
    ["UPDATE sessions SET settings = '{'", "UPDATE nodes SET facts = '[1]' WHERE facts IS NOT NULL"],
)
def test_a_damaged_session_is_a_sentence_and_the_others_open(kept: Kept, file: Path, damage: str) -> None:
    kept.keeper.close()
    with sqlite3.connect(file) as database:
        database.execute(damage)
    other = Kept(file)
    other.ask("And you?", "Me too.")
    with pytest.raises(LocalspecError, match="damaged"):
        other.keeper.store.read(kept.session.id)
    assert other.read().title == "And you?"


def test_a_damaged_letter_is_one_letter(kept: Kept, file: Path) -> None:
    kept.keeper.close()
    with sqlite3.connect(file) as database:
        database.execute("UPDATE sessions SET title = CAST(x'57ff79' AS TEXT)")
    assert [row.title for row in Store(file).sessions()] == ["W\N{REPLACEMENT CHARACTER}y"]
