"""A model's vocabulary: text to tokens, tokens to bytes, and the tokens with a meaning of their own.

llama.cpp ends the process on an id outside the vocabulary, so ids are checked here. Everything that needs a call
per token is built once, when first asked for.
"""

from __future__ import annotations

import ctypes
from collections.abc import Collection
from functools import cached_property

from localspec.errors import ModelError
from localspec.llama.native import Native, Pointer, lc
from localspec.spec.types import Token

_UNKNOWN, _CONTROL, _BYTE = 1, 8, 32  # llama_token_attr


class Vocab:
    """Belongs to a loaded model and ends with it. `bos` and `eos` are None where the model has none."""

    def __init__(self, native: Native, model: Pointer) -> None:
        self._native, self._model = native, model
        self._vocab: Pointer = lc.llama_model_get_vocab(model)
        self.size: int = lc.llama_vocab_n_tokens(self._vocab)
        self.add_bos: bool = lc.llama_vocab_get_add_bos(self._vocab)
        self.bos = self._optional(lc.llama_vocab_bos(self._vocab))
        self.eos = self._optional(lc.llama_vocab_eos(self._vocab))

    def __len__(self) -> int:
        return self.size

    def close(self) -> None:
        """For a vocabulary that was loaded alone."""
        self._native.close()

    def read(self) -> None:
        """Build what every answer needs: a call for each token, 0.2 s for 50,000 of them."""
        _ = self.pieces, self.eog, self.special_texts

    @cached_property
    def bos_text(self) -> str:
        return self._text(self.bos)

    @cached_property
    def eos_text(self) -> str:
        return self._text(self.eos)

    @cached_property
    def eog(self) -> frozenset[Token]:
        """Every token that ends a generation; most vocabularies have several."""
        self._native.check()
        return frozenset(i for i in range(self.size) if lc.llama_vocab_is_eog(self._vocab, i))

    @cached_property
    def end(self) -> Token | None:
        """What the model's answers end with: the end token that its template spells out, else `eos`."""
        template, first = self.chat_template or "", () if self.eos is None else (self.eos,)
        return next((i for i in (*first, *sorted(self.eog)) if self._text(i) in template), self.eos)

    @cached_property
    def pieces(self) -> list[bytes]:
        """The bytes of each token in a text, by id; a control token has none."""
        return self._table(special=False)

    @cached_property
    def spellings(self) -> list[bytes]:
        """As `pieces`, with control tokens spelt out (`<|im_end|>`)."""
        return self._table(special=True)

    def spelt(self, texts: Collection[str]) -> list[bytes]:
        """As `pieces`, with these control tokens spelt out, but for those that end an answer."""
        shown = list(self.pieces) if texts else self.pieces
        for text in texts:
            ids = self.tokenise(text, special=True, bos=False)
            if len(ids) == 1 and ids[0] not in self.eog:
                shown[ids[0]] = text.encode()
        return shown

    @cached_property
    def byte_tokens(self) -> frozenset[Token]:
        """Tokens for a single byte that are written only where no other token fits."""
        single = (i for i, piece in enumerate(self.pieces) if len(piece) == 1)
        return frozenset(i for i in single if lc.llama_vocab_get_attr(self._vocab, i) & _BYTE)

    @cached_property
    def special_texts(self) -> frozenset[str]:
        """What is read as a token only with `special`: the texts of control and unknown tokens."""
        self._native.check()
        marked = (i for i in range(self.size) if lc.llama_vocab_get_attr(self._vocab, i) & (_UNKNOWN | _CONTROL))
        return frozenset(self._text(token) for token in marked)

    @property
    def chat_template(self) -> str | None:
        return self.template(None)

    def template(self, name: str | None) -> str | None:
        """The model's own Jinja template, or the one it keeps under `name`; None if there is no such thing."""
        self._native.check()
        text = lc.llama_model_chat_template(self._model, name.encode() if name else None)
        return text.decode(errors="replace") if text else None

    def name(self, token: Token) -> str:
        """A token for people: its text, or what a control token is called."""
        return self.pieces[token].decode(errors="replace") or self._text(token)

    def tokenise(self, text: str, *, special: bool, bos: bool) -> list[Token]:
        """The ids of `text`. `special` reads `<|im_end|>` as the control token, else as plain characters.
        `bos` puts the begin token in front, if the vocabulary has one; nothing is ever added behind."""
        self._native.check()
        data = text.encode(errors="replace")
        start = [self.bos] if bos and self.bos is not None else []
        room = len(data) + 2
        while True:
            ids = (lc.llama_token * room)()
            count = lc.llama_tokenize(self._vocab, data, len(data), ids, room, False, special)
            if count >= 0:
                return [*start, *ids[:count]]
            if count == -(2**31):
                raise ModelError("The text is too long to tokenise.", "Shorten it.")
            room = -count

    def _table(self, *, special: bool) -> list[bytes]:
        self._native.check()
        buffer = ctypes.create_string_buffer(256)
        table = []
        for token in range(self.size):
            while (count := lc.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)) < 0:
                buffer = ctypes.create_string_buffer(-count)
            table.append(ctypes.string_at(buffer, count))
        return table

    def _text(self, token: Token | None) -> str:
        if token is None:
            return ""
        self._native.check()
        text: str = lc.llama_vocab_get_text(self._vocab, token).decode(errors="replace")
        return text

    def _optional(self, token: Token) -> Token | None:
        """-1 stands for none; an id outside the vocabulary (a damaged header) would end the process later."""
        return token if 0 <= token < self.size else None
