"""Models that a test can see through: a strict cache over scripted logits, and a drafter that samples from one.

Every rule of the LanguageModel protocol is asserted here, so that a decoder that breaks one fails at once. Knows
nothing of llama.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, TypeAlias
from zlib import crc32

import numpy as np
from numpy.random import Generator, default_rng
from numpy.typing import ArrayLike

from localspec.errors import CannotRewind
from localspec.spec.context import common_prefix
from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Finish, Logits, Token, Tokens

Script: TypeAlias = Callable[[tuple[Token, ...]], ArrayLike]
"""The logits after a context. It must be a function of the context alone."""


def noise(n_vocab: int, scale: float = 3.0, seed: int = 0) -> Script:
    """Normal logits that depend on every token of the context and its order: a damaged cache gives other text."""

    def logits(context: tuple[Token, ...]) -> ArrayLike:
        key = crc32(np.asarray(context, np.int32).tobytes(), seed)
        return scale * default_rng(key).standard_normal(n_vocab)

    return logits


def rambling(n_vocab: int, seed: int = 0) -> Script:
    """Text that often repeats itself, as real text does: the last two tokens weigh most, the whole a little."""
    local, whole = noise(n_vocab, 3.0, seed), noise(n_vocab, 0.5, seed + 1)
    return lambda context: np.asarray(local(context[-2:])) + np.asarray(whole(context))


def saying(text: Tokens, n_vocab: int, prompt: int) -> Script:
    """After a prompt of `prompt` tokens the most likely continuation is `text`, then token 0 for ever."""

    def logits(context: tuple[Token, ...]) -> ArrayLike:
        row, at = np.zeros(n_vocab), len(context) - prompt
        row[text[at] if at < len(text) else 0] = 9.0
        return row

    return logits


def fixed(probabilities: ArrayLike) -> Script:
    """The same distribution everywhere."""
    with np.errstate(divide="ignore"):
        row = np.log(np.asarray(probabilities, np.float64))
    return lambda context: row


class FakeModel:
    """A LanguageModel whose cache is a list. Logits are read-only, and NaN from the next decode on."""

    def __init__(
        self,
        script: Script,
        n_vocab: int,
        *,
        n_ctx: int = 512,
        n_batch: int = 64,
        max_rows: int = 64,
        rewinds: bool = True,
    ) -> None:
        self.n_vocab, self.n_ctx, self.n_batch, self.max_rows = n_vocab, n_ctx, n_batch, max_rows
        self.decodes: list[tuple[int, int]] = []
        """(tokens, rows) of each decode so far."""
        self._script, self._rewinds = script, rewinds
        self._cache: list[Token] = []
        self._rows = np.empty((0, n_vocab), np.float32)

    @property
    def cached(self) -> Tokens:
        return np.array(self._cache, np.int32)

    def decode(self, tokens: Tokens, *, rows: int) -> Logits:
        new = [int(token) for token in tokens]
        assert 1 <= len(new) <= self.n_batch, f"a batch of {len(new)} tokens"
        assert 0 <= rows <= min(len(new), self.max_rows), f"{rows} rows for {len(new)} tokens"
        assert all(0 <= token < self.n_vocab for token in new), f"not in the vocabulary: {new}"
        assert len(self._cache) + len(new) <= self.n_ctx, "past the end of the context"
        self.decodes.append((len(new), rows))
        self._cache += new
        self._rows.setflags(write=True)
        self._rows[:] = np.nan
        first = len(self._cache) - rows + 1
        self._rows = np.empty((rows, self.n_vocab), np.float32)
        for i in range(rows):
            self._rows[i] = self._script(tuple(self._cache[: first + i]))
        self._rows.setflags(write=False)
        return self._rows

    def rewind(self, length: int) -> None:
        assert 0 <= length <= len(self._cache), f"rewind to {length} of {len(self._cache)}"
        if not self._rewinds and length not in (0, len(self._cache)):
            raise CannotRewind("This model's cache can only be cleared.")
        del self._cache[length:]


class FakeDrafter:
    """Drafts from a model of its own, and hands over the distribution that each token was drawn from."""

    name: ClassVar[str] = "fake"

    def __init__(self, model: FakeModel) -> None:
        self.model = model

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self.model.rewind(min(common_prefix(self.model.cached, context), len(context) - 1))
        unread = context[len(self.model.cached) :]
        while len(unread) > self.model.n_batch:
            self.model.decode(unread[: self.model.n_batch], rows=0)
            unread = unread[self.model.n_batch :]
        tokens: list[Token] = []
        probs = []
        for _ in range(limit):
            row = self.model.decode(unread, rows=1)[0]
            q = distribution(row, [*context, *tokens], sampling)
            unread = [q.sample(rng)]
            tokens += unread
            probs.append(q)
        return Draft(tuple(tokens), tuple(probs), self.name)

    def close(self) -> None:
        pass


class ScriptedDrafter:
    """Proposes with certainty what `script` says to the context; what it says may be wrong or too long."""

    name: ClassVar[str] = "scripted"

    def __init__(self, script: Callable[[tuple[Token, ...]], Tokens]) -> None:
        self._script = script

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        proposed = self._script(tuple(int(token) for token in context))
        return Draft(tuple(int(token) for token in proposed[:limit]), source=self.name)

    def close(self) -> None:
        pass


def never(token: Token) -> Finish | None:
    """An ending that no token brings about."""
    return None


def at(*ends: Token) -> Callable[[Token], Finish | None]:
    """An ending that each of these tokens brings about."""
    return lambda token: Finish.STOP if token in ends else None
