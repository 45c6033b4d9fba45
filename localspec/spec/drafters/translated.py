"""A smaller model with another tokeniser drafts.

Its distribution is restricted to the pieces that both vocabularies have, written in the target's tokens, and only
then transformed and drawn from: what is handed over is what was drawn from, so the verifier stays exact
(docs/exactness.md). Knows a LanguageModel and two vocabularies, not where they come from.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from localspec.spec.context import rewind_to_common
from localspec.spec.distribution import Distribution
from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling
from localspec.spec.translation import Reading, Translation, Vocabulary
from localspec.spec.types import Draft, LanguageModel, Logits, Token, Tokens

SHARED = 0.5  # where the draft would rather say something else, its word on the rest is not worth a pass
_FEW = 0.5  # of the draft's pieces: with fewer shared ones the user should know what to expect
_LOOK = 32  # rows over which the draft's word is weighed
_POOR = "Translated drafts will be few and short."
UNSURE = 0.2  # another token is not worth its price when the whole draft would survive with less than this


class TranslatedDrafter:
    """`n_vocab` is the width of the target's rows. `notice` says when the two vocabularies have little in common."""

    name: ClassVar[str] = "translated"

    def __init__(self, model: LanguageModel, n_vocab: int, target: Vocabulary, draft: Vocabulary) -> None:
        self._model, self._n_vocab, self._ends = model, n_vocab, target.eog
        self._translation = Translation(target, draft)
        self._reading = Reading(self._translation, target, draft)
        self._rows, self._kept = 0, 0.0  # rows so far, and the mass that was kept of them
        few = self.shared < _FEW
        self.notice = (
            f"The draft shares only {self.shared:.0%} of its pieces with the target. {_POOR}" if few else None
        )

    @property
    def shared(self) -> float:
        """The fraction of the draft's pieces that the target has too."""
        return self._translation.shared

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        ids = self._reading.follow(context)
        if ids is None or not ids.size or (limit := min(limit, self._model.n_ctx - ids.size)) < 1:
            return Draft()
        row = self._read(ids)
        history = np.concatenate((np.asarray(context, np.int32), np.empty(limit, np.int32)))
        tokens: list[Token] = []
        probs: list[Distribution] = []
        survival = 1.0
        while True:
            shared, mass, confidence = self._restricted(row, sampling)
            survival *= confidence
            self._weigh(mass)
            # The row is known before the draw, so stopping here leaves every drawn token's distribution untouched.
            if mass < SHARED or confidence == 0 or (tokens and survival < UNSURE):
                break
            q = distribution(shared, history[: len(context) + len(tokens)], sampling)
            token = q.sample(rng)
            history[len(context) + len(tokens)] = token
            tokens.append(token)
            probs.append(q)
            if len(tokens) == limit or token in self._ends:
                break
            row = self._model.decode((self._translation.to_draft[token],), rows=1)[0]
        return Draft(tuple(tokens), tuple(probs), self.name)

    def close(self) -> None:
        """The model belongs to whoever loaded it."""

    def _weigh(self, mass: float) -> None:
        """What the pieces promise need not come true in this text, nor what they threaten."""
        self._rows, self._kept = self._rows + 1, self._kept + mass
        if self._rows == _LOOK:
            said = self._kept / _LOOK
            words = f"The target has tokens for only {said:.0%} of what the draft would say here. {_POOR}"
            self.notice = words if said < SHARED else None

    def _restricted(self, row: Logits, sampling: Sampling) -> tuple[Logits, float, float]:
        """The row in the target's tokens, minus infinity where it has no say; how much of the draft's mass that
        keeps, and how likely the draft finds the best of it."""
        own = row[self._translation.draft]
        shared = np.full(self._n_vocab, -np.inf, np.float32)
        shared[self._translation.target] = own
        shared[list(sampling.banned)] = -np.inf
        peak = row.max()
        total = float(np.exp(row - peak).sum())
        best = float(np.exp(shared.max() - peak))
        return shared, float(np.exp(own - peak).sum()) / total, best / total

    def _read(self, ids: NDArray[np.int32]) -> Logits:
        """Bring the cache to `ids`; returns the logits after them."""
        model, last = self._model, ids.size - 1
        for start in range(rewind_to_common(model, ids[:last]), last, model.n_batch):
            model.decode(ids[start : min(start + model.n_batch, last)], rows=0)
        row: Logits = model.decode(ids[last:], rows=1)[0]
        return row
