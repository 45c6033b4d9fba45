"""A conversation and its scripted engine, driven by hand: no screen."""

from __future__ import annotations

from localspec.conversation import Conversation, Options
from localspec.engine.messages import Event
from localspec.spec.settings import Sampling
from tests.tui.driving import LOAD
from tests.tui.scripted import ScriptedClient, finished, text

OPTIONS = Options("demo", "lookup", 8, Sampling(seed=7), max_tokens=99, system="Be brief.", stop=("END",))


class Talk:
    """A conversation and its engine, driven by hand."""

    def __init__(self, *, ready: bool = True, options: Options = OPTIONS) -> None:
        self.client = ScriptedClient(ready=ready)
        self.chat = Conversation(self.client, LOAD, options)
        self.chat.start()
        self.drain()

    def drain(self) -> None:
        while events := self.client.poll():
            for event in events:
                self.chat.fold(event)

    def hear(self, *events: Event) -> None:
        for event in events:
            self.chat.fold(event)

    def ask(self, question: str, answer: str = "An answer.") -> int:
        self.chat.submit(question)
        turn = self.client.turn
        self.hear(text(turn, answer), finished(turn))
        return turn

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.chat.session.messages()]

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.chat.notes]
