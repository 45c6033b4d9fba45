"""The two answers of a race as an engine would send them: words as tokens, times that a test chooses."""

from __future__ import annotations

from localspec.chat.message import Piece
from localspec.engine.messages import Emitted, Event, Finished, Prefill
from localspec.spec.types import Finish, Round
from tests.tui.scripted import ENVIRONMENT

PLAIN_S, DRAFTED_S = 0.5, 0.25  # a round's duration


def token(word: str) -> int:
    return sum(map(ord, word))


def lane(turn: int, words: str, size: int = 1, *, reason: Finish = Finish.STOP, q: float = 1.0) -> list[Event]:
    """An answer of these words, `size` of them in each round: 1 is plain decoding. `q` below 1: a model drafted."""
    spoken = words.split()
    chunks = [spoken[at : at + size] for at in range(0, len(spoken), size)]
    rounds = tuple(_round(chunk, size, q) for chunk in chunks)
    pieces = tuple(
        Piece(token(word), f" {word}", who)
        for made, chunk in zip(rounds, chunks, strict=True)
        for word, who in zip(chunk, made.provenance, strict=True)
    )
    seconds = sum(made.total_s for made in rounds)
    return [Prefill(turn, 9, 9, 0), Emitted(turn, rounds, pieces), _finished(turn, reason, seconds)]


def _round(words: list[str], size: int, q: float) -> Round:
    ids = tuple(map(token, words))
    drafted, seconds = ids[:-1], PLAIN_S if size == 1 else DRAFTED_S
    p = (1.0,) * len(drafted)
    name = "off" if not drafted else "lookup" if q == 1 else "draft"
    return Round(name, name, drafted, len(drafted), ids, p, (q,) * len(drafted), 8, 0.0, seconds, 0.0, seconds)


def _finished(turn: int, reason: Finish, seconds: float) -> Finished:
    return Finished(turn, reason, 7, 9, 0, 0.1, 0.2, seconds, seconds + 0.1, ENVIRONMENT)
