"""Prompt lookup: find where the last tokens stood before, and propose what followed.

The index is a hash chain as in LZ77 coders: a dictionary from token pair to its latest end position, and an array
that links each position to the previous one with the same pair. One insertion per token: nothing is rescanned;
undone in reverse order when the context shrinks. Knows no probabilities: its proposals are certain.
"""

from __future__ import annotations

from typing import ClassVar

from numpy.random import Generator

from localspec.spec.context import TokenBuffer, common_prefix
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Token, Tokens

_CHAIN = 128  # candidates looked at: the latest ones; bounds the time per round whatever the history
SHORTEST, LONGEST = 2, 32  # tokens of a match: one is no evidence, and more than 32 are no better


class Lookup:
    """Matches of at least `shortest` (2 or more) and at most `longest` tokens count."""

    name: ClassVar[str] = "lookup"
    free: ClassVar[bool] = True  # certain and cheap: may be asked in every round

    def __init__(self, shortest: int = SHORTEST, longest: int = LONGEST) -> None:
        self._shortest, self._longest = shortest, longest
        self._seen = TokenBuffer()
        self._tokens: list[Token] = []  # the same tokens as Python ints: ten times faster to index one by one
        self._latest: dict[int, int] = {}  # pair -> position of its second token
        self._previous: list[int] = []  # position -> the one before with the same pair, -1: none

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self._follow(context)
        start, match = self._longest_match()
        if match < self._shortest or limit < 1:
            return Draft()
        # A continuation that runs into the present goes on with itself: the text is repeating with that period.
        period = len(self._tokens) - start
        tokens = tuple(self._tokens[start + i % period] for i in range(limit))
        return Draft(tokens, source=self.name, evidence=min(8, match.bit_length() + 3))

    def close(self) -> None:
        pass

    def _follow(self, context: Tokens) -> None:
        common = common_prefix(self._seen.view, context)
        while len(self._tokens) > common:
            self._pop()
        self._seen.truncate(common)
        self._seen.extend(context[common:])
        for token in self._seen.view[common:].tolist():
            self._push(token)

    def _push(self, token: Token) -> None:
        self._tokens.append(token)
        position = len(self._tokens) - 1
        if position == 0:
            self._previous.append(-1)
            return
        key = self._key(position)
        self._previous.append(self._latest.get(key, -1))
        self._latest[key] = position

    def _pop(self) -> None:
        position = len(self._tokens) - 1
        before = self._previous.pop()
        if position > 0:
            key = self._key(position)
            if before < 0:
                del self._latest[key]
            else:
                self._latest[key] = before
        self._tokens.pop()

    def _key(self, position: int) -> int:
        return self._tokens[position - 1] << 32 | self._tokens[position]

    def _longest_match(self) -> tuple[int, int]:
        """Where the continuation of the longest earlier match begins, and the length of that match (0: none).

        The latest of equals wins (R47).
        """
        tokens, end = self._tokens, len(self._tokens) - 1
        start, longest = 0, 0
        candidate = self._previous[end] if end > 0 else -1
        for _ in range(_CHAIN):
            if candidate < 0 or longest == self._longest:
                break
            # Most candidates fail at the first token that would make them longer.
            if candidate >= longest and tokens[candidate - longest] == tokens[end - longest]:
                match = self._match(candidate, end)
                if match > longest:
                    start, longest = candidate + 1, match
            candidate = self._previous[candidate]
        return start, longest

    def _match(self, candidate: int, end: int) -> int:
        tokens, length = self._tokens, 2
        most = min(self._longest, candidate + 1)
        while length < most and tokens[candidate - length] == tokens[end - length]:
            length += 1
        return length
