"""An answer as it grows: a fold over the engine's events that every interface shares."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Protocol

from localspec.chat.message import Message, Piece
from localspec.chat.reported import Reported
from localspec.spec.advice import Advice
from localspec.spec.stats import Segment, Stats, fold
from localspec.spec.types import Finish, Round


class Ending(Protocol):
    """What the engine says at the end of an answer: its Finished event, which this room may not import."""

    @property
    def reason(self) -> Finish: ...
    @property
    def seed(self) -> int: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def reused_tokens(self) -> int: ...
    @property
    def prefill_s(self) -> float: ...
    @property
    def ttft_s(self) -> float | None: ...
    @property
    def decode_s(self) -> float: ...
    @property
    def total_s(self) -> float: ...
    @property
    def tail(self) -> str: ...
    @property
    def advice(self) -> tuple[Advice, ...]: ...
    @property
    def reported(self) -> Reported | None: ...


@dataclass(slots=True)
class Answer:
    """Mutable on purpose: one per turn, appended to while it streams. Times in seconds, None until known."""

    method: str
    rounds: list[Round] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    names: dict[int, str] = field(default_factory=dict)  # texts of tokens that were considered
    finish: Finish | None = None
    prompt_tokens: int = 0
    reused_tokens: int = 0
    seed: int | None = None
    prefill_s: float | None = None
    ttft_s: float | None = None
    decode_s: float | None = None
    total_s: float | None = None
    error: str | None = None
    tail: str = ""  # Finished.tail
    advice: tuple[Advice, ...] = ()  # whether each drafter pays here, as far as it was measured; not stored
    reported: Reported | None = None  # a server's own figures; not stored
    resumed: int = 0  # tokens of its own that the engine read again, to go on after a stop
    _earlier: tuple[float, float] = field(default=(0.0, 0.0), init=False, repr=False, compare=False)
    _segments: list[Segment] = field(default_factory=list, init=False, repr=False, compare=False)
    _folded: int = field(default=0, init=False, repr=False, compare=False)  # how many rounds are in them

    def extend(
        self, rounds: tuple[Round, ...], pieces: tuple[Piece, ...], names: Iterable[tuple[int, str]] = ()
    ) -> str:
        """Append what arrived; returns the new text."""
        self.rounds.extend(rounds)
        self.pieces.extend(pieces)
        self.names.update(names)
        return "".join(piece.text for piece in pieces)

    def forget_alternatives(self) -> None:
        """They take more memory than the rest of an answer."""
        self.rounds[:] = [replace(made, logprobs=()) if made.logprobs else made for made in self.rounds]
        self.names.clear()

    def resume(self) -> tuple[int, ...]:
        """Go on after a stop; returns the tokens to go on after. The tail that was held back comes again."""
        decoded = self.stats.total_s if self.decode_s is None else self.decode_s
        self._earlier = decoded, decoded if self.total_s is None else self.total_s
        self.finish, self.error, self.tail, self.decode_s, self.total_s = None, None, "", None, None
        self.resumed = len(self.pieces)
        return self.token_ids

    def read(self, total: int, reused: int) -> None:
        """How long the prompt is. Tokens of the answer's own, read again to go on, are not the prompt's."""
        self.prompt_tokens = total - self.resumed
        self.reused_tokens = min(reused, self.prompt_tokens)

    def end(self, ending: Ending) -> None:
        self.finish, self.seed, self.tail = ending.reason, ending.seed, ending.tail
        self.advice, self.reported = ending.advice, ending.reported
        self.read(ending.prompt_tokens, ending.reused_tokens)
        decoded, total = self._earlier
        self.decode_s, self.total_s = decoded + ending.decode_s, total + ending.total_s
        if not self.resumed:
            self.prefill_s, self.ttft_s = ending.prefill_s, ending.ttft_s

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces) + self.tail

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(piece.token for piece in self.pieces)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """Runs of rounds under one method. Only what is new is folded: a screen asks several times a second."""
        for method, group in groupby(self.rounds[self._folded :], key=lambda made: made.method):
            stats = fold(group)
            if self._segments and self._segments[-1].method == method:
                stats = self._segments.pop().stats + stats
            self._segments.append(Segment(method, stats))
        self._folded = len(self.rounds)
        return tuple(self._segments)

    @property
    def stats(self) -> Stats:
        return sum((segment.stats for segment in self.segments), Stats())

    def message(self) -> Message:
        return Message("assistant", self.text, self.token_ids)
