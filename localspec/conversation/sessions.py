"""The open session, and the others that can be opened in its place. Knows no widget and no clock."""

from __future__ import annotations

from dataclasses import replace

from localspec.chat.keeper import Keeper
from localspec.chat.session import Session
from localspec.chat.store import Hit, Row
from localspec.conversation.data import Options
from localspec.conversation.turns import Turns
from localspec.engine.client import EngineClient
from localspec.engine.messages import Load
from localspec.errors import LocalspecError, UsageError
from localspec.spec.stats import Stats

_ENDED = "localspec ended in the middle of it"


class Conversation(Turns):
    def __init__(
        self, client: EngineClient, load: Load | None, options: Options, keeper: Keeper | None = None
    ) -> None:
        super().__init__(client, load, options, keeper)
        self._defaults = options
        self.keeper.store.claim(self.session.id)
        self._tell()

    @property
    def title(self) -> str:
        """Of the session; empty before its first message."""
        return self.session.title

    def switch_model(self, load: Load, options: Options) -> None:
        """Load another model. The session stays, and so does every sampling setting that the user changed; of
        `options` only what belongs to a model is taken: title, method, and what its authors recommend."""
        self._require_rest()
        hint = ""
        if self.options.sampling == self._defaults.sampling != options.sampling:
            self.set_sampling(options.sampling)
            hint = "It is sampled as its authors recommend." if options.recommended else ""
        own = {name: getattr(options, name) for name in ("title", "method", "recommended")}
        self.options = replace(self.options, **own)
        self._defaults = replace(self._defaults, **own, sampling=options.sampling)
        self.method, self.plain, self.why, self.full = options.method, Stats(), "", None
        self._load = load
        if self.session.path:
            self.say(f"From here on {options.title} answers.", hint)
        self.start()

    def sessions(self, limit: int = -1) -> list[Row]:
        """All that are kept, the latest first; the open one too, once something was said in it."""
        return self.keeper.store.sessions(limit)

    def search(self, text: str, limit: int = 100) -> list[Hit]:
        """Messages of all sessions with these words, the latest first."""
        return self.keeper.store.search(text, limit)

    def new_session(self) -> None:
        """Leave the open session and begin another, with the settings that the program was started with."""
        self._leave()
        self._enter(Session(self._defaults.system, sampling=self._defaults.sampling))

    def open_session(self, id: str) -> None:
        """Leave the open session and go on with this one. The model stays: it reads what it does not know yet."""
        if id == self.session.id:
            return
        self._require_rest()
        if not self.keeper.store.claim(id):
            raise UsageError("This session is open in another localspec.", "Close it there, or begin a new one.")
        try:
            session = self.keeper.pending(id) or self.keeper.store.read(id)
        except LocalspecError:
            self.keeper.store.release(id)
            raise
        self._leave()
        self.keeper.opened(session)
        self._enter(session)

    def rename(self, title: str) -> None:
        """Name the open session; an empty title goes back to its first message."""
        self.session.named = " ".join(title.split()) or None
        self._save()

    def rename_session(self, id: str, title: str) -> None:
        if id == self.session.id:
            self.rename(title)
        else:
            self.keeper.store.rename(id, title)

    def delete(self, id: str) -> None:
        """Delete a session for good; in place of the open one, a new one begins."""
        if id == self.session.id:
            self._require_rest()
            self.queue.clear()
            self._unsent.clear()
            self._leave()
        elif not self.keeper.store.claim(id):
            raise UsageError("This session is open in another localspec.", "Close it there first.")
        self.keeper.forget(id)
        self.keeper.store.delete(id)
        self.keeper.store.release(id)
        if id == self.session.id:
            self._enter(Session(self._defaults.system, sampling=self._defaults.sampling))

    def _leave(self) -> None:
        self._require_rest()
        self._save()
        self.keeper.store.release(self.session.id)
        self.queue.clear()
        self._unsent.clear()

    def _enter(self, session: Session) -> None:
        self.session = session
        self.options = replace(self.options, sampling=session.sampling or self._defaults.sampling)
        self.paused, self.full, self.why = False, None, ""
        self.keeper.store.claim(session.id)
        for text in session.waiting:
            self._give_back(text)
        self._mend()
        if session.model not in ("", self.options.title):
            self.say(f"This session was with {session.model}. From here on {self.options.title} answers.")

    def _mend(self) -> None:
        """What was being written when the program was killed is an answer that broke off, or none at all."""
        for node in self.session.answers():
            if node.answer and node.answer.finish is None and node.answer.error is None:
                node.answer.error = _ENDED
                if not node.answer.token_ids:
                    self._forget(node, node.parent or self.session.root)
        tip = self.session.tip
        if tip.message:
            self.say("This message has no answer yet.", "Ctrl+R asks it again.")
