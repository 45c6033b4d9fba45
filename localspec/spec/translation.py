"""From one vocabulary to another: which tokens of two models say the same, and a text of one in the other's tokens.

Two tokens say the same when their bytes are equal. Control tokens have no bytes of their own: the end of an answer
has a counterpart because of its role, and none ever has one because of its spelling. Knows vocabularies, no models
and no probabilities.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from localspec.spec.context import TokenBuffer, common_prefix
from localspec.spec.types import Token, Tokens

_WORD = 16  # a stretch without white space is cut after so many tokens


class Vocabulary(Protocol):
    """`pieces` are the bytes of each token in a text, none for a control token; `spellings` spell those out too.
    `byte_tokens` stand for a single byte, and are written only where nothing else fits. Of the tokens that end a
    generation, `eog`, the model's answers end with `end`."""

    @property
    def pieces(self) -> Sequence[bytes]: ...
    @property
    def spellings(self) -> Sequence[bytes]: ...
    @property
    def byte_tokens(self) -> Container[Token]: ...
    @property
    def add_bos(self) -> bool: ...
    @property
    def bos(self) -> Token | None: ...
    @property
    def end(self) -> Token | None: ...
    @property
    def eog(self) -> Container[Token]: ...
    def tokenise(self, text: str, *, special: bool, bos: bool) -> list[Token]: ...


class Translation:
    """`target[i]` and `draft[i]` are one token in the two vocabularies: all that the draft can propose."""

    def __init__(self, target: Vocabulary, draft: Vocabulary) -> None:
        theirs, ours = texts(target), texts(draft)
        pairs = [(token, ours[piece]) for piece, token in theirs.items() if piece in ours]
        self.texts = ours
        self.shared = len(pairs) / max(1, len(ours))
        """The fraction of the draft's pieces that the target has too."""
        if target.end is not None and draft.end is not None:
            pairs.append((target.end, draft.end))
        self.target, self.draft = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
        self.to_draft = dict(pairs)


def texts(vocab: Vocabulary) -> dict[bytes, Token]:
    """Each piece and the token that a model writes for it: of several the lowest, a byte token last."""
    found: dict[bytes, Token] = {}
    single: dict[bytes, Token] = {}
    for token, piece in enumerate(vocab.pieces):
        if piece and token not in vocab.eog and token != vocab.bos:
            (single if token in vocab.byte_tokens else found).setdefault(piece, token)
    return single | found


class Reading:
    """A target's context in the draft's tokens, kept from call to call.

    Text is translated word by word, as the draft's own tokeniser would write it; the word at the end, which may go
    on, token by token. So the result depends on the context alone, and what the draft wrote itself stays as it is.
    """

    def __init__(self, translation: Translation, target: Vocabulary, draft: Vocabulary) -> None:
        self._same, self._target, self._draft = translation.to_draft, target, draft
        self._texts = translation.texts
        self._longest = max(map(len, self._texts), default=0)
        self._single: dict[Token, list[Token] | None] = {}
        self._seen = TokenBuffer()
        self._ids = TokenBuffer([draft.bos] if draft.add_bos and draft.bos is not None else [])
        self._words = [(0, len(self._ids))]  # where each begins, in the target's tokens and in the draft's
        self._stuck: int | None = None  # where a token stands that the draft can't spell

    def follow(self, context: Tokens) -> NDArray[np.int32] | None:
        """The context in the draft's tokens; None where the draft can't spell it."""
        common = common_prefix(self._seen.view, context)
        if self._stuck is not None and self._stuck < common:
            return None
        # A word is finished by the token after it.
        while len(self._words) > 1 and self._words[-1][0] >= common:
            self._words.pop()
        start, at = self._words[-1]
        self._ids.truncate(at)
        self._seen.truncate(start)
        self._seen.extend(context[start:])
        self._stuck = self._read(start)
        return None if self._stuck is not None else self._ids.view

    def _read(self, start: int) -> int | None:
        """Translate what was seen from `start` on, where a word begins; returns where the draft can't follow."""
        word: list[Token] = []
        for i, token in enumerate(self._seen.view[start:].tolist(), start):
            if word and (len(word) == _WORD or self._begins(word[-1], token)):
                self._close(word)
                self._words.append((i, len(self._ids)))
                word = []
            if (ids := self._open(token, i)) is None:
                return i
            word.append(token)
            self._ids.extend(ids)
        return None

    def _begins(self, before: Token, token: Token) -> bool:
        return not self._is_text(before) or not self._is_text(token) or self._target.pieces[token][:1].isspace()

    def _is_text(self, token: Token) -> bool:
        vocab = self._target
        return bool(vocab.pieces[token]) and token not in vocab.eog and token != vocab.bos

    def _close(self, word: list[Token]) -> None:
        """The word is whole now: write it as the draft would."""
        if self._is_text(word[0]):
            ids = self._encode(b"".join(self._target.pieces[token] for token in word))
            if ids is not None:
                self._ids.truncate(self._words[-1][1])
                self._ids.extend(ids)

    def _open(self, token: Token, i: int) -> list[Token] | None:
        if i == 0 and token == self._target.bos:
            return []  # the draft has its own beginning, or wants none
        if token not in self._single:
            self._single[token] = self._translated(token)
        return self._single[token]

    def _translated(self, token: Token) -> list[Token] | None:
        if token in self._same:
            return [self._same[token]]
        if token in self._target.eog and self._draft.end is not None:
            return [self._draft.end]
        return self._encode(self._target.spellings[token])

    def _encode(self, text: bytes) -> list[Token] | None:
        """The draft's tokens for exactly these bytes. Some tokenisers put a space before every text."""
        try:
            forms = [text.decode(), text.decode().removeprefix(" ")]
        except UnicodeDecodeError:  # a part of a character
            forms = []
        for form in forms:
            ids = self._draft.tokenise(form, special=False, bos=False)
            if b"".join(self._draft.pieces[i] for i in ids) == text:
                return ids
        return self._longest_first(text)

    def _longest_first(self, text: bytes) -> list[Token] | None:
        ids: list[Token] = []
        while text:
            ends = range(min(self._longest, len(text)), 0, -1)
            end = next((end for end in ends if text[:end] in self._texts), None)
            if end is None:
                return None
            ids.append(self._texts[text[:end]])
            text = text[end:]
        return ids
