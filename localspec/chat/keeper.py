"""Sees to it that what is said gets into the store: at once, or as soon as the store can take it.

A message is written before the engine hears of it, a streaming answer every half second. While the store fails, the
chat goes on; everything that is not written yet is tried again. The clock is handed in. Knows no engine.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from localspec.chat import schema
from localspec.chat.session import Node, Session
from localspec.chat.store import Store
from localspec.errors import StoreError

EVERY_S = 0.5
_PAUSES_S = (1.0, 2.0, 5.0, 15.0)  # between attempts while the store fails; each may cost its patience


@dataclass(slots=True)
class _Unsaved:
    """What of a session is not in the store. `head`: its title, settings, ... as last written."""

    session: Session
    changed: dict[int, Node] = field(default_factory=dict)
    removed: set[int] = field(default_factory=set)


class Keeper:
    """`clock` gives seconds since 1970. `saved` is False while the store fails."""

    def __init__(self, store: Store | None = None, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.store = store or Store()
        self.saved = True
        self.notices: list[str] = [self.store.notice] if self.store.notice else []
        self._clock = clock
        self._current = Session()
        self._unsaved: dict[str, _Unsaved] = {}
        self._heads: dict[str, object] = {}
        self._tried = 0.0
        self._failures = 0

    def changed(self, session: Session, *nodes: Node) -> None:
        """These nodes are new, or other than they were."""
        waiting = self._of(session)
        waiting.changed |= {node.id: node for node in nodes if node.parent}
        waiting.removed -= waiting.changed.keys()

    def removed(self, session: Session, node: Node) -> None:
        waiting = self._of(session)
        waiting.changed.pop(node.id, None)
        waiting.removed.add(node.id)

    def keep(self, session: Session) -> None:
        """Called many times a second: writes what is due."""
        pause = _PAUSES_S[min(self._failures, len(_PAUSES_S)) - 1] if self._failures else EVERY_S
        if not 0 <= self._clock() - self._tried < pause:  # a clock may be set back
            self.save(session)

    def save(self, session: Session) -> None:
        """Write everything that is not written; tried at once, whatever failed before."""
        self._current = session
        if self._heads.get(session.id) != _head(session) and (session.id in self._heads or not session.empty):
            self._of(session)
        if not self._unsaved:
            return
        self._tried = self._clock()
        try:
            if self.store.lost:
                self._begin_anew()
                self.notices.append("The file of the sessions was deleted: this conversation is in a fresh one.")
            self._write()
        except StoreError as error:
            self._fail(error)

    def close(self) -> None:
        """Before the program ends; `saved` then says whether everything is in the store."""
        self.save(self._current)
        self.store.close()

    def pending(self, id: str) -> Session | None:
        """A session that was left before the store took all of it."""
        return self._unsaved[id].session if id in self._unsaved else None

    def forget(self, id: str) -> None:
        """It was deleted."""
        self._unsaved.pop(id, None)
        self._heads.pop(id, None)

    def opened(self, session: Session) -> None:
        """It was read from the store, so it is in there."""
        self._heads[session.id] = _head(session)

    def _of(self, session: Session) -> _Unsaved:
        return self._unsaved.setdefault(session.id, _Unsaved(session))

    def _write(self) -> None:
        for id, waiting in list(self._unsaved.items()):
            head = _head(waiting.session)
            if waiting.session.empty:
                self.store.delete(id)
                self._heads.pop(id, None)
            else:
                self.store.write(waiting.session, waiting.changed.values(), waiting.removed, self._clock())
                self._heads[id] = head
            del self._unsaved[id]
        if not self.saved:
            self.notices.append("The conversation is saved again; nothing of it is missing.")
        self.saved, self._failures = True, 0

    def _fail(self, error: StoreError) -> None:
        self._failures += 1
        if self.saved:
            self.saved = False
            self.notices.append(f"The conversation can't be saved: {error.reason}. It goes on, and so does trying.")
        if error.damaged:
            with suppress(StoreError, OSError):  # tried again, like after any other failure
                if self.store.path:
                    aside = schema.set_aside(self.store.path)
                    self.notices.append(f"The damaged file of the sessions is kept as {aside}.")
                self._begin_anew()

    def _begin_anew(self) -> None:
        """Go on in a fresh file, and write everything to it that is known here."""
        self.store.close()
        self.store = Store(self.store.path)
        self._heads.clear()
        for session in {id(s): s for s in (self._current, *(u.session for u in self._unsaved.values()))}.values():
            self.store.claim(session.id)
            self.changed(session, *session.nodes())


def _head(session: Session) -> object:
    chosen = session.root.chosen.id if session.root.chosen else None
    return (
        *(session.title, session.named, session.system, session.sampling, session.model),
        *(session.waiting, session.dropped, chosen),
    )
