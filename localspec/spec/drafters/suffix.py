"""Suffix drafting: the longest end of the context that stood before, and what followed it most often.

A suffix automaton has one state for all strings that end at the same places, so it holds every substring of the
context in linear memory and is extended in amortised constant time (Blumer et al. 1985). Here its edges also count
how often they were taken, which makes it a Markov model of every order at once. Its proposals are certain; their
length comes from how long the match is and how unanimous its continuations were. Where the conversation itself has
little to say, earlier answers are asked (spec/corpus.py).
"""

from __future__ import annotations

from array import array
from typing import ClassVar

from numpy.random import Generator

from localspec.spec.context import TokenBuffer, common_prefix
from localspec.spec.corpus import FLOOR, LONGEST, Corpus, Guess
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Token, Tokens

ENOUGH = 2.0  # tokens that should survive: with these, earlier answers are not worth asking
EARLIER = 16  # what evidence from earlier answers begins at, so that it is learned apart
_CROWD = 8  # states with more edges than this find them by a dictionary
_NONE = -1
_ROOT = 0


class Suffix:
    name: ClassVar[str] = "suffix"
    free: ClassVar[bool] = True  # certain and cheap: may be asked in every round

    def __init__(self, longest: int = LONGEST, corpus: Corpus | None = None) -> None:
        self._seen = TokenBuffer()
        self._automaton = SuffixAutomaton(longest)
        self._corpus = corpus

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self._follow(context)
        found = self._automaton.continuation(limit)
        if self._corpus is not None and found.expected < ENOUGH:
            earlier = self._corpus.guess(self._seen.view, limit)
            if earlier.expected > found.expected:
                found = earlier._replace(evidence=EARLIER + earlier.evidence)
        return Draft(found.tokens, source=self.name, evidence=found.evidence)

    def close(self) -> None:
        pass

    def _follow(self, context: Tokens) -> None:
        common = common_prefix(self._seen.view, context)
        for _ in range(len(self._seen) - common):
            self._automaton.pop()
        self._seen.truncate(common)
        self._seen.extend(context[common:])
        for token in self._seen.view[common:].tolist():
            self._automaton.push(token)


class SuffixAutomaton:
    """Grows and shrinks at the end. Arrays instead of objects: about a hundred bytes per token. `longest` bounds the
    counting per token, also in "a a a a"."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        # States. The root is the empty string; `link` leads to the longest suffix that ends at more places.
        self._length, self._link = array("i", [0]), array("i", [_NONE])
        self._first, self._best = array("i", [_NONE]), array("i", [_NONE])  # edges
        self._seen = array("i", [0])  # how often something followed
        # Edges, in lists that begin at their state.
        self._from, self._token, self._to = array("i"), array("i"), array("i")
        self._next, self._times = array("i"), array("i")
        self._crowds: dict[int, dict[Token, int]] = {}
        # The text, and what undoes each of its tokens.
        self._text = array("i")
        self._whole = array("i", [_ROOT])  # the state of each prefix
        self._recent = array("i", [_ROOT])  # a state from which `_settled` finds that of its last tokens
        self._split, self._edges, self._changes = array("i"), array("i"), array("i")
        self._changed, self._former = array("i"), array("i")  # states whose best edge was another

    def continuation(self, limit: int) -> Guess:
        """What followed most often where the longest end of the text stood before."""
        tokens: list[Token] = []
        state, match = self._settled(), min(len(self._text), self._longest)
        survival, expected, evidence = 1.0, 0.0, 0
        while len(tokens) < limit:
            while state != _ROOT and not self._known(state):
                state = self._link[state]
                match = min(self._length[state], self._longest)
            if state == _ROOT:
                break
            edge = self._best[state]
            # A single witness counts more the longer the match.
            chance = self._times[edge] / (self._seen[state] + 1 / match)
            survival *= chance
            if survival < FLOOR:
                break
            evidence = evidence if tokens else int(8 * chance)
            expected += survival
            tokens.append(self._token[edge])
            state, match = self._to[edge], min(match + 1, self._longest)
        return Guess(tuple(tokens), evidence, expected)

    def _known(self, state: int) -> bool:
        """Whether something followed it, and was counted: only strings of up to `longest` tokens are."""
        return self._seen[state] > 0 and self._length[self._link[state]] < self._longest

    def push(self, token: Token) -> None:
        self._split.append(_NONE)
        self._edges.append(len(self._from))
        self._changes.append(len(self._changed))
        self._extend(token)
        state = self._settled()
        self._count(state, token)
        self._text.append(token)
        self._recent.append(self._to[self._find(state, token)])

    def pop(self) -> None:
        """Undo the last push, step by step in reverse."""
        token = self._text.pop()
        self._recent.pop()
        self._discount(self._settled(), token)
        end = self._whole.pop()
        self._drop_edges(self._edges.pop())
        split = self._split.pop()
        if split != _NONE:
            clone = end + 1
            self._link[split] = self._link[clone]
            self._redirect(self._whole[-1], token, clone, split)
        for column in (self._length, self._link, self._first, self._best, self._seen):
            del column[end:]

    def _settled(self) -> int:
        """The state of the last `longest` tokens: the recent one, or a suffix of it that was split off."""
        state, match = self._recent[-1], min(len(self._text), self._longest)
        while state != _ROOT and self._length[self._link[state]] >= match:
            state = self._link[state]
        return state

    def _extend(self, token: Token) -> None:
        state = self._whole[-1]
        end = self._state(self._length[state] + 1)
        self._whole.append(end)
        while state != _NONE and (edge := self._find(state, token)) == _NONE:
            self._edge(state, token, end, 0)
            state = self._link[state]
        if state == _NONE:
            self._link[end] = _ROOT
            return
        follower = self._to[edge]
        if self._length[follower] == self._length[state] + 1:
            self._link[end] = follower
            return
        clone = self._clone(follower, self._length[state] + 1)
        self._redirect(state, token, follower, clone)
        self._link[follower] = self._link[end] = clone
        self._split[-1] = follower

    def _clone(self, state: int, length: int) -> int:
        """The shorter strings of `state` get a state of their own, with all that is known about them."""
        clone = self._state(length)
        self._link[clone], self._seen[clone] = self._link[state], self._seen[state]
        edge = self._first[state]
        while edge != _NONE:
            copy = self._edge(clone, self._token[edge], self._to[edge], self._times[edge])
            if edge == self._best[state]:
                self._best[clone] = copy
            edge = self._next[edge]
        return clone

    def _redirect(self, state: int, token: Token, old: int, new: int) -> None:
        """From `state` down its suffixes: edges that led to `old` lead to `new`."""
        while state != _NONE:
            edge = self._find(state, token)
            if edge != _NONE:
                if self._to[edge] != old:
                    return
                self._to[edge] = new
            state = self._link[state]

    def _count(self, state: int, token: Token) -> None:
        while state != _ROOT:
            edge, best = self._find(state, token), self._best[state]
            self._seen[state] += 1
            self._times[edge] += 1
            # Of equals the latest (R47).
            if edge != best and (best == _NONE or self._times[edge] >= self._times[best]):
                self._changed.append(state)
                self._former.append(best)
                self._best[state] = edge
            state = self._link[state]

    def _discount(self, state: int, token: Token) -> None:
        while state != _ROOT:
            self._seen[state] -= 1
            self._times[self._find(state, token)] -= 1
            state = self._link[state]
        before = self._changes.pop()
        while len(self._changed) > before:
            self._best[self._changed.pop()] = self._former.pop()

    def _state(self, length: int) -> int:
        self._length.append(length)
        self._seen.append(0)
        for column in (self._link, self._first, self._best):
            column.append(_NONE)
        return len(self._length) - 1

    def _edge(self, state: int, token: Token, to: int, times: int) -> int:
        edge = len(self._from)
        self._next.append(self._first[state])
        self._first[state] = edge
        for column, value in ((self._from, state), (self._token, token), (self._to, to), (self._times, times)):
            column.append(value)
        if (crowd := self._crowds.get(state)) is not None:
            crowd[token] = edge
        elif (crowd := self._crowd(state)) is not None:
            self._crowds[state] = crowd
        return edge

    def _crowd(self, state: int) -> dict[Token, int] | None:
        """All its edges by token, if there are enough of them to be worth it."""
        edges: dict[Token, int] = {}
        edge = self._first[state]
        while edge != _NONE:
            edges[self._token[edge]] = edge
            edge = self._next[edge]
        return edges if len(edges) >= _CROWD else None

    def _drop_edges(self, before: int) -> None:
        while len(self._from) > before:
            state, token = self._from.pop(), self._token.pop()
            self._first[state] = self._next.pop()
            self._to.pop()
            self._times.pop()
            if (crowd := self._crowds.get(state)) is not None:
                del crowd[token]

    def _find(self, state: int, token: Token) -> int:
        if (crowd := self._crowds.get(state)) is not None:
            return crowd.get(token, _NONE)
        edge = self._first[state]
        while edge != _NONE and self._token[edge] != token:
            edge = self._next[edge]
        return edge
