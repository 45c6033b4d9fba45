"""From rounds to text events: detokenise, look for the end, and coalesce.

At most about 50 events a second leave the engine, whatever the speed of decoding; the first token leaves at once.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from localspec.chat.detok import Detokenizer, TextStream
from localspec.chat.message import Piece
from localspec.spec.types import Finish, Round, Token, Tokens

_INTERVAL_S = 0.02

Send = Callable[[tuple[Round, ...], tuple[Piece, ...]], None]


class Outbox:
    """One per answer. `first_at` is the clock's time at the first token, None before it."""

    def __init__(self, send: Send, text: TextStream, resume: Tokens = ()) -> None:
        self._send, self._text = send, text
        for token in resume:  # so that a character that the stop cut in half is completed
            text(token)
        text.take()
        self.tokens: list[Token] = []  # everything that was emitted
        self._rounds: list[Round] = []
        self._pieces: list[Piece] = []
        self._sent_at = 0.0
        self.first_at: float | None = None

    def ending(self, token: Token) -> Finish | None:
        return self._text(token)

    def add(self, done: Round) -> None:
        now = perf_counter()
        self.first_at = self.first_at or now
        texts = list(self._text.take())
        if done.finish is not None:
            texts[-1] += self._text.flush()
        pieces = [
            Piece(token, text, source)
            for token, text, source in zip(done.emitted, texts, done.provenance, strict=True)
        ]
        if ghost := self._ghost(done):
            last = pieces[-1]
            pieces[-1] = Piece(last.token, last.text, last.provenance, ghost)
        self.tokens += done.emitted
        self._rounds.append(done)
        self._pieces += pieces
        if now - self._sent_at >= _INTERVAL_S:
            self._flush(now)

    def close(self) -> str:
        """Send what is left; returns text that was held back when the answer was stopped in mid-character."""
        if self._rounds:
            self._flush(perf_counter())
        return self._text.flush()

    def _flush(self, now: float) -> None:
        self._send(tuple(self._rounds), tuple(self._pieces))
        self._rounds, self._pieces, self._sent_at = [], [], now

    def _ghost(self, done: Round) -> str:
        if done.cut or done.accepted == len(done.drafted):
            return ""
        detok = Detokenizer(self._text.pieces)
        return "".join(detok.feed(token) for token in done.drafted[done.accepted :]) + detok.flush()
