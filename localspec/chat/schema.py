"""The file that sessions are kept in: its tables, how an older one is brought up to date, and what is done about one
that can't be used. Knows no session.

`PRAGMA user_version` is the number of steps of `UPGRADES` that a file has seen. A step that was released is never
changed: what is new is a further step.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path

from localspec.errors import StoreError

PATIENCE_S = 0.25  # for another instance that writes; the screen stands still for so long

UPGRADES: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE sessions (
            key INTEGER PRIMARY KEY,
            id TEXT NOT NULL UNIQUE,
            title TEXT NOT NULL,       -- as it is listed: the one it was given, else its first message
            named TEXT,                -- the title it was given
            created REAL NOT NULL,     -- seconds since 1970
            updated REAL NOT NULL,
            model TEXT NOT NULL,
            system TEXT,
            settings TEXT NOT NULL,    -- JSON
            chosen INTEGER             -- node: the first on the active path
        )""",
        "CREATE INDEX sessions_by_age ON sessions (updated)",
        """CREATE TABLE nodes (
            key INTEGER PRIMARY KEY,
            session INTEGER NOT NULL REFERENCES sessions ON DELETE CASCADE,
            id INTEGER NOT NULL,       -- within its session
            parent INTEGER NOT NULL,   -- 0: the root
            chosen INTEGER,
            role TEXT NOT NULL,
            text TEXT NOT NULL,
            facts TEXT,                -- JSON, of an answer: what it was asked for with, and how it went
            UNIQUE (session, id)
        )""",
        # An answer grows by one part each half second: rounds and tokens that no other part has.
        """CREATE TABLE parts (
            node INTEGER NOT NULL REFERENCES nodes ON DELETE CASCADE,
            seq INTEGER NOT NULL,
            rounds INTEGER NOT NULL,   -- how many
            tokens BLOB NOT NULL,      -- little-endian int32
            body BLOB NOT NULL,        -- deflated JSON
            PRIMARY KEY (node, seq)
        ) WITHOUT ROWID""",
        "CREATE VIRTUAL TABLE words USING fts5 (text, content='nodes', content_rowid='key', prefix='2 3')",
        """CREATE TRIGGER words_insert AFTER INSERT ON nodes BEGIN
            INSERT INTO words (rowid, text) VALUES (new.key, new.text);
        END""",
        """CREATE TRIGGER words_delete AFTER DELETE ON nodes BEGIN
            INSERT INTO words (words, rowid, text) VALUES ('delete', old.key, old.text);
        END""",
        """CREATE TRIGGER words_update AFTER UPDATE OF text ON nodes WHEN old.text IS NOT new.text BEGIN
            INSERT INTO words (words, rowid, text) VALUES ('delete', old.key, old.text);
            INSERT INTO words (rowid, text) VALUES (new.key, new.text);
        END""",
    ),
)
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def connect(path: Path | None) -> tuple[sqlite3.Connection, str]:
    """The database, up to date, and what the user should know about it. None: in memory, for this run only.

    A damaged file is kept aside and a fresh one started. Raises StoreError where none can be used.
    """
    try:
        return _opened(path), ""
    except sqlite3.Error as error:
        if path is None or not is_damage(error):
            raise StoreError(path, reason(error)) from error
    except OSError as error:
        raise StoreError(path, error.strerror or str(error)) from error
    try:
        aside = set_aside(path)
        return _opened(path), f"The file of the sessions was damaged. It is kept as {aside}, and a fresh one begun."
    except (sqlite3.Error, OSError) as error:
        raise StoreError(path, f"it is damaged, and no fresh one can be started: {reason(error)}") from error


def is_damage(error: sqlite3.Error) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED  # the rest of the number says where


def reason(error: Exception) -> str:
    """SQLite's words are for programmers; these are for people."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    known = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_BUSY: "another program is holding it",
        sqlite3.SQLITE_READONLY: "it may not be written to",
        sqlite3.SQLITE_CANTOPEN: "it can't be opened",
        sqlite3.SQLITE_PERM: "it may not be read",
        sqlite3.SQLITE_IOERR: "the disk reports an error",
    }
    return known.get(code) or getattr(error, "strerror", None) or str(error)


def set_aside(path: Path) -> Path:
    """Move a damaged file out of the way, with what belongs to it; returns its new name."""
    aside = next(name for n in count(1) if not (name := path.with_name(f"{path.name}.damaged-{n}")).exists())
    path.rename(aside)
    for suffix in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
    return aside


def _opened(path: Path | None) -> sqlite3.Connection:
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # what people write is theirs alone
    database = sqlite3.connect(path or ":memory:", timeout=PATIENCE_S, isolation_level=None)
    database.text_factory = partial(str, encoding="utf-8", errors="replace")  # one damaged letter is one letter
    try:
        _upgrade(database, path)
        for pragma in ("journal_mode = WAL", "synchronous = NORMAL", "foreign_keys = ON", "secure_delete = ON"):
            database.execute(f"PRAGMA {pragma}")
        database.execute("SELECT max(key) FROM nodes").fetchone()
    except BaseException:
        database.close()
        raise
    return database


def _version(database: sqlite3.Connection) -> int:
    return int(database.execute("PRAGMA user_version").fetchone()[0])


def _upgrade(database: sqlite3.Connection, path: Path | None) -> None:
    """All missing steps or none. Another instance may do the same at this moment, so look again inside."""
    version = _version(database)
    if version > len(UPGRADES):
        raise StoreError(path, "a newer localspec wrote it. It was left as it is")
    if version == len(UPGRADES):
        return
    database.execute("BEGIN IMMEDIATE")
    try:
        for step in UPGRADES[_version(database) :]:
            for statement in step:
                database.execute(statement)
        database.execute(f"PRAGMA user_version = {len(UPGRADES)}")
        database.execute("COMMIT")
    except BaseException:
        database.rollback()
        raise
