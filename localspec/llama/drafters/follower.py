"""What the drafters with a head have in common: they hear every decode of the target, and stay in step with it.

The head's cache holds a row for each position before `features.first`; what the target computed from there on waits
in `features`, since most of what follows the last known token is rejected again. Both are cut where the target's own
cache is cut and written anew. A trouble on the head's side costs drafts, never the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from localspec import gguf
from localspec.errors import LocalspecError, ModelError, ModelLoadError
from localspec.llama import heads
from localspec.llama.drafters.draws import Following, draws
from localspec.llama.drafters.features import Features
from localspec.llama.drafters.head import CHUNK, HeadContext
from localspec.llama.heads import Head
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.distribution import Distribution
from localspec.spec.drafters.model import UNSURE
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Token, Tokens


class Follower:
    """`failures` counts the drafts that a trouble of the head has cost; `trouble` says what the last one was."""

    name: ClassVar[str]
    waiting: ClassVar[int]  # how many rows the head must write for a draft, even if it wrote them for the last one

    def __init__(self, target: LlamaModel, spec: ModelSpec, *, unsure: float = UNSURE) -> None:
        """`spec` names the head. Raises ModelLoadError with the reason where it can't draft for this target."""
        header = gguf.read(target.info.path)
        head = heads.fit(spec.path, header)
        if head.kind != self.name:
            raise ModelLoadError(spec.path, f"it is a head for {head.kind}", f"Use --method {head.kind}.")
        self._context = context = HeadContext(head, target, spec)
        behind_last = heads.depth(header) if self.name == "eagle3" else None
        self._begin(head, target, Features(context.target_context, head.layers, head.width, behind_last), unsure)

    def _begin(self, head: Head, target: LlamaModel, features: Features, unsure: float) -> None:
        self.head = head
        self.failures, self.trouble = 0, ""
        self._target, self._features, self._unsure = target, features, unsure
        features.restart(len(target.cached))
        self._unsubscribe = target.subscribe(self._heard)

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        limit = min(limit, self.head.longest or limit, self._target.n_ctx - len(context))
        drawn: list[tuple[Token, Distribution]] = []
        try:
            if limit > 0 and self._in_step(context):
                following, eog = self._following(context, limit), self._target.vocab.eog
                for pair in draws(following, context, limit, sampling, rng, eog, self._unsure):
                    drawn.append(pair)
        except ModelError as error:  # what was drawn before stays: dropping it would depend on what it was
            self._lost(error)
        return Draft(tuple(t for t, _ in drawn), tuple(q for _, q in drawn), self.name) if drawn else Draft()

    @property
    def notice(self) -> str | None:
        """What the user should know, once."""
        if not self.failures:
            return None
        return f"The {self.name} head lost its place, and a draft: {self.trouble} It goes on from here."

    def close(self) -> None:
        """The target stays loaded."""
        self._unsubscribe()
        self._context.close()

    def _following(self, context: Tokens, limit: int) -> Following:
        """Bring the head to the end of `context`; `limit` rows may be asked for."""
        raise NotImplementedError

    def _write(self, start: int, end: int, tokens: Tokens, *, wanted: bool = False) -> None:
        """Put the rows of these positions into the head's cache; `tokens` reach at least one beyond `end`."""
        raise NotImplementedError

    def _in_step(self, context: Tokens) -> bool:
        """Whether the target has read the context but for its last token, and everything needed was heard."""
        last, features = len(context) - 1, self._features
        if not np.array_equal(self._target.cached, context[:last]):
            return False
        features.cut(last)
        return features.end == last and features.first <= last - self.waiting

    def _behind(self, end: int) -> Iterator[tuple[int, int]]:
        """The positions before `end` that the head has no row for, in pieces that fit one pass."""
        self._context.cut(self._features.first)
        for start in range(self._features.first, end, CHUNK):
            yield start, min(start + CHUNK, end)

    def _heard(self, tokens: NDArray[np.int64], start: int) -> None:
        features = self._features
        try:
            features.cut(start)
            # What lies before this decode is certain by now, so a long wait can be worked off.
            if features.end - features.first > CHUNK:
                for piece in self._behind(start):
                    self._write(*piece, self._target.cached)
                features.drop(start)
            features.add(len(tokens))
        except ModelError as error:
            self._lost(error)
            features.restart(start + len(tokens))

    def _lost(self, error: LocalspecError) -> None:
        self.failures, self.trouble = self.failures + 1, error.message
        self._context.clear()
