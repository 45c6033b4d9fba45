"""One session, everything that is said beside it, and the keeper that gets it into the store. Knows no engine."""

from __future__ import annotations

from dataclasses import replace

from localspec.chat.keeper import Keeper
from localspec.chat.session import Node, Session
from localspec.conversation.data import Note, Options, Returned
from localspec.errors import LocalspecError
from localspec.spec.settings import Sampling


class Kept:
    def __init__(self, options: Options, keeper: Keeper | None = None) -> None:
        """What is said goes to `keeper`; None keeps it for this run only."""
        self.options = options
        self.keeper = keeper or Keeper()
        self.session = Session(options.system, sampling=options.sampling)
        self.running: Node | None = None
        self.watched: bool | None = None  # token by token? None: there is no such view (alternatives.py)
        self.queue: list[str] = []
        self.notes: list[Note] = []
        self._returned: list[Returned] = []
        self._unsent: list[str] = []  # their texts, until something else is sent

    def take_returned(self) -> Returned | None:
        return self._returned.pop(0) if self._returned else None

    def say(self, text: str, hint: str = "", *, error: bool = False) -> None:
        """Put a note in the transcript."""
        self.notes.append(Note(len(self.notes), self.session.tip, text, hint, error))

    def set_system(self, text: str | None) -> None:
        """The system prompt of this session, from the next question on."""
        self.session.system = text or None
        self._save()

    def set_sampling(self, sampling: Sampling) -> None:
        """The sampling settings of this session, from the next question on."""
        self.options = replace(self.options, sampling=sampling)
        self.session.sampling = sampling
        self._save()

    def step(self, node: Node, by: int) -> None:
        """Show a sibling of this message."""
        self.session.step(node, by)
        if node.parent:
            self.keeper.changed(self.session, node.parent)
        self._save()

    def keep(self) -> None:
        """Called many times a second: what is due gets into the store."""
        self._waiting()
        self.keeper.keep(self.session)
        self._tell()

    def _say_once(self, text: str) -> None:
        if all(note.text != text for note in self.notes):
            self.say(text)

    def _save(self) -> None:
        self._waiting()
        self.keeper.save(self.session)
        self._tell()

    def _waiting(self) -> None:
        self.session.waiting = (*self._unsent, *self.queue)

    def _tell(self) -> None:
        while self.keeper.notices:
            self.say(self.keeper.notices.pop(0), error=not self.keeper.saved)

    def _give_back(self, text: str, instead_of: Node | None = None) -> None:
        self._returned.append(Returned(text, instead_of))
        self._unsent.append(text)

    def _forget(self, node: Node, heir: Node) -> Node | None:
        self.notes = [replace(note, after=heir) if note.after is node else note for note in self.notes]
        left = self.session.remove(node)
        self.keeper.removed(self.session, node)
        if node.parent:
            self.keeper.changed(self.session, node.parent)
        return left

    def _require_rest(self) -> None:
        if self.running:
            raise LocalspecError("The answer is still being written.", "Esc stops it.")
