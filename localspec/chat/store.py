"""Sessions in one SQLite file: everything that was said, the moment it was said. Knows no clock, screen or engine.

Write-ahead logging: a process that is killed leaves a whole file, and two instances work side by side, each on
sessions of its own.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from localspec.chat import schema
from localspec.chat.answer import Answer
from localspec.chat.claims import Claims
from localspec.chat.codec import DAMAGE, answer_fields, asked_of, facts, packed, sampling_of
from localspec.chat.message import Message
from localspec.chat.query import looked_for
from localspec.chat.session import Node, Session
from localspec.chat.stored import StoredAnswer
from localspec.errors import LocalspecError, StoreError

_CHOSEN = (
    "SELECT id, title, updated, (SELECT count(*) FROM nodes WHERE session = sessions.key), model FROM sessions"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A session as it is listed. `updated`: seconds since 1970. `messages`: answers and siblings count too."""

    id: str
    title: str
    updated: float
    messages: int
    model: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was searched for, and the part of it that has the words."""

    session: str
    title: str
    updated: float
    node: int
    role: str
    line: str


class Store:
    """`notice` is what the user should know about the file. Raises StoreError where it can't be used."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._database, self.notice = schema.connect(path)
        self._claims = Claims(path)
        self._inode = self._inode_now()

    def close(self) -> None:
        self._claims.close()
        with suppress(sqlite3.Error):
            self._database.close()

    # Reading

    def sessions(self, limit: int = -1) -> list[Row]:
        """The latest first."""
        return [Row(*row) for row in self._all(f"{_CHOSEN} ORDER BY updated DESC, key DESC LIMIT ?", limit)]

    def search(self, text: str, limit: int = 100) -> list[Hit]:
        """Messages with all these words, the last one perhaps unfinished; the latest first."""
        found = looked_for(text)
        return [Hit(*row) for row in self._all(found.sql, *found.values, limit)] if found else []

    def read(self, id: str) -> Session:
        rows = self._all("SELECT key, named, system, settings, model, chosen FROM sessions WHERE id = ?", id)
        if not rows:
            raise LocalspecError("This session is no longer there.", "It was deleted elsewhere.")
        try:
            return self._read(id, *rows[0])
        except DAMAGE as error:
            raise LocalspecError("This session is damaged and can't be opened.", "The others can.") from error

    def _read(
        self,
        id: str,
        key: int,
        named: str | None,
        system: str | None,
        settings: str,
        model: str,
        chosen: int | None,
    ) -> Session:
        kept = json.loads(settings)
        session = Session(system, sampling=kept["sampling"] and sampling_of(kept["sampling"]), model=model)
        session.id, session.named = id, named
        session.waiting, session.dropped = tuple(kept["waiting"]), frozenset(kept["dropped"])
        self._read_tree(session, key, chosen)
        return session

    def _read_tree(self, session: Session, key: int, chosen: int | None) -> None:
        parts: dict[int, list[tuple[bytes, bytes]]] = {}
        for node_key, tokens, body in self._all(
            "SELECT node, tokens, body FROM nodes JOIN parts ON node = key WHERE session = ? ORDER BY node, seq",
            key,
        ):
            parts.setdefault(node_key, []).append((tokens, body))
        nodes = {0: session.root}
        chosen_of = {0: chosen}
        columns = "SELECT key, id, parent, chosen, text, facts FROM nodes WHERE session = ? ORDER BY id"
        for node_key, id, parent, child, text, about in self._all(columns, key):
            if parent in nodes:
                nodes[id] = node = _node(id, nodes[parent], text, about, parts.get(node_key, []))
                chosen_of[id] = child
                session.put(node)
        for id, node in nodes.items():
            last = node.children[-1] if node.children else None
            node.chosen = nodes.get(chosen_of[id] or -1, last) if last else None

    # Writing

    def write(self, session: Session, changed: Collection[Node], removed: Collection[int], now: float) -> None:
        """All of it or nothing. Of an answer that grew, what is there already is not written again."""
        with self._transaction():
            key = self._write_head(session, now)
            for id in removed:
                self._do("DELETE FROM nodes WHERE session = ? AND id = ?", key, id)
            for node in sorted(changed, key=lambda node: node.id):
                self._write_node(key, node)
            if changed or removed:
                self._do("UPDATE sessions SET updated = ? WHERE key = ?", now, key)

    def rename(self, id: str, title: str) -> None:
        with self._transaction():
            self._do("UPDATE sessions SET named = ?, title = ? WHERE id = ?", title, title, id)

    def delete(self, id: str) -> None:
        """For good: its words leave the index as well, and their place in the file is overwritten."""
        with self._transaction():
            self._do("DELETE FROM sessions WHERE id = ?", id)
            self._do("INSERT INTO words (words) VALUES ('optimize')")

    def claim(self, id: str) -> bool:
        """Take this session for this process; False if another one has it. A process that ends lets go."""
        return self._claims.take(id)

    def release(self, id: str) -> None:
        self._claims.release(id)

    @property
    def lost(self) -> bool:
        """Somebody deleted or replaced the file: what is written would be gone with the process."""
        return self._inode != self._inode_now()

    def _write_head(self, session: Session, now: float) -> int:
        sampling = asdict(session.sampling) if session.sampling else None
        settings = {"sampling": sampling, "waiting": session.waiting, "dropped": sorted(session.dropped)}
        chosen = session.root.chosen.id if session.root.chosen else None
        self._do(
            """INSERT INTO sessions (id, title, named, created, updated, model, system, settings, chosen)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET title = excluded.title,
            named = excluded.named, model = excluded.model, system = excluded.system, settings = excluded.settings,
            chosen = excluded.chosen""",
            *(session.id, session.title, session.named, now, now),
            *(session.model, session.system, json.dumps(settings), chosen),
        )
        return int(self._all("SELECT key FROM sessions WHERE id = ?", session.id)[0][0])

    def _write_node(self, session: int, node: Node) -> None:
        parent, answer = node.parent.id if node.parent else 0, node.answer
        role = node.message.role if node.message else "assistant"
        text = node.message.text if node.message else answer.text if answer else ""
        about = json.dumps(facts(answer, node.asked)) if answer and node.asked else None
        self._do(
            """INSERT INTO nodes (session, id, parent, chosen, role, text, facts) VALUES (?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (session, id) DO UPDATE SET chosen = excluded.chosen, text = excluded.text,
            facts = excluded.facts""",
            *(session, node.id, parent, node.chosen.id if node.chosen else None, role, text, about),
        )
        if answer:
            key = self._all("SELECT key FROM nodes WHERE session = ? AND id = ?", session, node.id)[0][0]
            self._append(key, answer)

    def _append(self, key: int, answer: Answer) -> None:
        columns = "count(*), coalesce(sum(rounds), 0), coalesce(sum(length(tokens)), 0) / 4"
        parts, rounds, pieces = self._all(f"SELECT {columns} FROM parts WHERE node = ?", key)[0]
        if parts and isinstance(answer, StoredAnswer) and answer.unread:
            return
        fresh = answer.rounds[rounds:], answer.pieces[pieces:]
        if any(fresh):
            self._do(
                "INSERT INTO parts VALUES (?, ?, ?, ?, ?)", key, parts, len(fresh[0]), *packed(*fresh, answer.names)
            )

    # SQLite

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._do("BEGIN IMMEDIATE")
        try:
            yield
            self._do("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):  # some failures end the transaction by themselves
                self._database.execute("ROLLBACK")
            raise

    def _do(self, sql: str, *values: Any) -> None:
        self._all(sql, *values)

    def _all(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        clean = [_clean(value) if isinstance(value, str) else value for value in values]
        try:
            return self._database.execute(sql, clean).fetchall()
        except sqlite3.Error as error:
            raise StoreError(self.path, schema.reason(error), damaged=schema.is_damage(error)) from error

    def _inode_now(self) -> int:
        try:
            return self.path.stat().st_ino if self.path else 0
        except OSError:
            return -1


def _node(id: int, parent: Node, text: str, about: str | None, parts: list[tuple[bytes, bytes]]) -> Node:
    if about is None:
        return Node(id, parent, message=Message("user", text))
    plain = json.loads(about)
    return Node(id, parent, answer=StoredAnswer(text, parts, **answer_fields(plain)), asked=asked_of(plain))


def _clean(text: str) -> str:
    """Half a character, which a broken pipe or the name of a file may hand over, is none that a database holds."""
    return text.encode("utf-8", "replace").decode()
