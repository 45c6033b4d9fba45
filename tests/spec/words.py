"""Vocabularies small enough to see through, for tests of translation."""

from __future__ import annotations

from collections.abc import Collection

from localspec.spec.types import Token


class Words:
    """Pieces by id; those in angle brackets are control tokens. Encodes by the longest piece first."""

    def __init__(
        self,
        *texts: str | bytes,
        bos: Token | None = None,
        end: Token | None = None,
        byte_tokens: Collection[Token] = (),
        space_first: bool = False,
    ) -> None:
        self.spellings = [text.encode() if isinstance(text, str) else text for text in texts]
        self.pieces = [b"" if text[:1] + text[-1:] == b"<>" else text for text in self.spellings]
        self.bos, self.end, self.add_bos = bos, end, bos is not None
        self.eog = frozenset(() if end is None else (end,))
        self.byte_tokens = byte_tokens
        self._space_first = space_first

    def __len__(self) -> int:
        return len(self.pieces)

    def tokenise(self, text: str, *, special: bool, bos: bool) -> list[Token]:
        assert not special and not bos
        data = text.encode()
        if self._space_first and data:
            data = b" " + data
        ids: list[Token] = []
        while data:
            best = max((p for p in self.pieces if p and data.startswith(p)), key=len, default=data[:1])
            if best in self.pieces:  # what has no piece is left out, as some tokenisers do
                ids.append(self.pieces.index(best))
            data = data[len(best) :]
        return ids

    def ids(self, *pieces: str) -> list[Token]:
        return [self.spellings.index(piece.encode()) for piece in pieces]

    def text(self, ids: Collection[Token]) -> bytes:
        return b"".join(self.pieces[int(i)] for i in ids)
