"""A smaller model of the same family drafts; it shares the target's vocabulary.

Draws from its own distribution under the target's sampling settings and hands over exactly what it drew from, so that
the verifier can use the whole overlap of the two. Knows a LanguageModel, not where it comes from.
"""

from __future__ import annotations

import math
from collections.abc import Container
from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.random import Generator

from localspec.spec.context import rewind_to_common
from localspec.spec.distribution import Distribution
from localspec.spec.sampling import distribution
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, LanguageModel, Logits, Token, Tokens

UNSURE = 0.2  # another token is not worth its price when the whole draft would survive with less than this


class ModelDrafter:
    """`n_vocab` is the target's: ids beyond it are padding of the draft, and never proposed. Ids beyond the draft's
    own vocabulary are padding of the target, and get no probability. A draft ends after a token of `eog`."""

    name: ClassVar[str] = "draft"

    def __init__(
        self, model: LanguageModel, n_vocab: int, eog: Container[Token] = (), unsure: float = UNSURE
    ) -> None:
        self._model, self._n_vocab, self._eog, self._unsure = model, n_vocab, eog, unsure
        self._shared = min(n_vocab, model.n_vocab)

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        limit = min(limit, self._model.n_ctx - len(context) + 1)  # the last drafted token is not read
        if limit < 1 or int(np.max(context)) >= self._model.n_vocab:  # an id that this model has no row for
            return Draft()
        sampling = self._within(sampling)
        row = self._read(context)
        history = np.concatenate((np.asarray(context, np.int32), np.empty(limit, np.int32)))
        tokens: list[Token] = []
        probs: list[Distribution] = []
        survival = 1.0
        while True:
            # The row is known before the draw, so stopping here leaves every drawn token's distribution untouched.
            survival *= _confidence(row)
            if tokens and survival < self._unsure:
                break
            q = self._proposal(row, history[: len(context) + len(tokens)], sampling)
            token = q.sample(rng)
            history[len(context) + len(tokens)] = token
            tokens.append(token)
            probs.append(q)
            if len(tokens) == limit or token in self._eog:
                break
            row = self._model.decode((token,), rows=1)[0]
        return Draft(tuple(tokens), None if sampling.greedy else tuple(probs), self.name)

    def close(self) -> None:
        """The model belongs to whoever loaded it."""

    def _read(self, context: Tokens) -> Logits:
        """Bring the cache to `context`; returns the logits after it."""
        model, last = self._model, len(context) - 1
        for start in range(rewind_to_common(model, context[:last]), last, model.n_batch):
            model.decode(context[start : min(start + model.n_batch, last)], rows=0)
        row: Logits = model.decode(context[last:], rows=1)[0]
        return row

    def _within(self, sampling: Sampling) -> Sampling:
        """Without the biases and bans of tokens that this model doesn't have."""
        if not (sampling.logit_bias or sampling.banned):
            return sampling
        bias = tuple((token, value) for token, value in sampling.logit_bias if token < self._shared)
        banned = tuple(token for token in sampling.banned if token < self._shared)
        return replace(sampling, logit_bias=bias, banned=banned)

    def _proposal(self, row: Logits, history: Tokens, sampling: Sampling) -> Distribution:
        q = distribution(row[: self._shared], history, sampling)
        if q.ids is None and q.probs.size < self._n_vocab:
            return Distribution(None, np.concatenate((q.probs, np.zeros(self._n_vocab - q.probs.size))))
        return q


def _confidence(row: Logits) -> float:
    """How likely the target accepts here: about the root of the peak of the draft's softmax, measured to be so for
    greedy and for sampled drafts alike (docs/drafters.md)."""
    return math.sqrt(1 / float(np.exp(row - row.max()).sum()))
