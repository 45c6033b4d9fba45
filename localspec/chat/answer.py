"""An answer as it grows: a fold over the engine's events that every interface shares."""

from __future__ import annotations

from dataclasses import dataclass, field

from localspec.chat.message import Message, Piece
from localspec.spec.stats import Stats, fold
from localspec.spec.types import Finish, Round


@dataclass(slots=True)
class Answer:
    """Mutable on purpose: one per turn, appended to while it streams. Times in seconds, None until known."""

    method: str
    rounds: list[Round] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
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

    def extend(self, rounds: tuple[Round, ...], pieces: tuple[Piece, ...]) -> str:
        """Append what arrived; returns the new text."""
        self.rounds.extend(rounds)
        self.pieces.extend(pieces)
        return "".join(piece.text for piece in pieces)

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces) + self.tail

    @property
    def token_ids(self) -> tuple[int, ...]:
        return tuple(piece.token for piece in self.pieces)

    @property
    def stats(self) -> Stats:
        return fold(self.rounds)

    def message(self) -> Message:
        return Message("assistant", self.text, self.token_ids)
