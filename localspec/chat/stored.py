"""An answer that was read from the store: its text and token ids are there, the rest is read when it is asked for.

A session of five hundred turns opens at once this way; most of its rounds are never looked at again.
"""

from __future__ import annotations

from typing import Any

from localspec.chat.answer import Answer
from localspec.chat.codec import DAMAGE, unpacked, unpacked_tokens
from localspec.chat.message import Piece


class StoredAnswer(Answer):
    """Its slots for rounds and pieces stay empty until the first look, which `__getattr__` is told of."""

    __slots__ = ("_parts", "_text")

    def __init__(self, text: str, parts: list[tuple[bytes, bytes]], **fields: Any) -> None:
        super().__init__(**fields)
        self._text, self._parts = text, parts
        del self.rounds, self.pieces, self.names

    def __getattr__(self, name: str) -> Any:
        if name not in ("rounds", "pieces", "names"):
            raise AttributeError(name)
        try:
            parts = [unpacked(tokens, body) for tokens, body in self._parts]
        except DAMAGE:  # the figures are lost; the words are kept apart from them
            parts = [([], [Piece(0, self._text, "plain")], {})]
        self.rounds = [made for rounds, _, _ in parts for made in rounds]
        self.pieces = [piece for _, pieces, _ in parts for piece in pieces]
        self.names = {token: name for _, _, names in parts for token, name in names.items()}
        self._parts = []
        return getattr(self, name)

    @property
    def unread(self) -> bool:
        """Nothing but the text and the tokens was looked at, so nothing was added."""
        return bool(self._parts)

    @property
    def text(self) -> str:
        return self._text if self._parts else super().text

    @property
    def token_ids(self) -> tuple[int, ...]:
        if not self._parts:
            return super().token_ids
        try:
            return unpacked_tokens(b"".join(tokens for tokens, _ in self._parts))
        except DAMAGE:
            return ()
