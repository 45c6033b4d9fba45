"""Conversations to store: a session that is kept, and what was said in it."""

from __future__ import annotations

from pathlib import Path

from localspec.chat.answer import Answer
from localspec.chat.keeper import Keeper
from localspec.chat.message import Piece
from localspec.chat.session import Asked, Node, Session
from localspec.chat.store import Store
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, Round

ASKED = Asked(Sampling(temperature=0.5, logit_bias=((3, -1.5),), banned=(7,)), 4, model="demo")


class Clock:
    """Time that passes when it is told to."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Kept:
    """One session and its keeper, on a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.clock = Clock()
        self.keeper = Keeper(Store(path), self.clock)
        self.session = Session("Be brief.", sampling=ASKED.sampling, model="demo")

    def ask(self, text: str, answer: str = "", finish: Finish | None = Finish.STOP) -> Node:
        question = self.session.say(text)
        node = self.session.answer(question, Answer("lookup", finish=finish, seed=7), ASKED)
        assert node.answer is not None
        rounds, pieces = spoken(answer)
        node.answer.extend(rounds, pieces)
        self.keeper.changed(self.session, question, node, *([question.parent] if question.parent else []))
        self.keeper.save(self.session)
        return node

    def read(self) -> Session:
        return self.keeper.store.read(self.session.id)


def spoken(text: str, begin: int = 0) -> tuple[tuple[Round, ...], tuple[Piece, ...]]:
    """One round of two tokens for every pair of words."""
    words = [word + " " for word in text.split()]
    pieces = [Piece(at, word, ("bonus", "lookup")[at % 2], "gh" * (at % 2)) for at, word in enumerate(words, begin)]
    rounds = [
        Round(
            *("lookup", "lookup", (9, 8), 1, tuple(p.token for p in pair), (0.25, 1 / 3), (1.0, 1.0), 4),
            *(0.001, 0.02, 0.0005, 0.0225),
        )
        for pair in (pieces[at : at + 2] for at in range(0, len(pieces), 2))
    ]
    return tuple(rounds), tuple(pieces)


def everything(session: Session) -> list[tuple[object, ...]]:
    """All that was said, with its place in the tree."""
    return [
        (
            *(node.id, node.parent.id if node.parent else None, node.chosen.id if node.chosen else None),
            *(node.message, node.asked, node.answer.text if node.answer else None),
            *((node.answer.pieces, node.answer.finish, node.answer.seed) if node.answer else ()),
        )
        for node in session.nodes()
    ]
