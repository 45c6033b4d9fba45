"""Which tokens may come next under a grammar: the Constraint of spec/constraint.py.

Tokens are walked byte by byte through the automaton: a few of them one by one, a whole vocabulary level by level,
so that bytes which many tokens share are looked up once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.errors import UsageError
from localspec.grammar.automaton import Grammar, State
from localspec.spec.types import Token

_FEW = 64  # from here on the vectors win

Ids = NDArray[np.int32]
Flags = NDArray[np.bool_]


class Alphabet:
    """The tokens of a vocabulary as a grammar sees them. Those without text (control tokens) never match: what they
    spell does not reach the answer. Those that end a generation match where the text may end."""

    def __init__(self, pieces: Sequence[bytes], eog: Collection[Token]) -> None:
        if not eog:
            raise UsageError("This model has no end token, so it could not end an answer under a grammar.")
        self.pieces = pieces
        self.flat = np.frombuffer(b"".join(pieces), np.uint8)
        self.sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.ends = np.zeros(len(pieces), np.bool_)
        self.ends[list(eog)] = True


@dataclass(frozen=True, slots=True)
class Matcher:
    """The state after some text. `state` None: the text has ended, and only the end may come again. A draft may go
    on behind its end token; what comes there is asked for, and then cut off."""

    alphabet: Alphabet
    state: State | None

    @classmethod
    def begin(cls, grammar: Grammar, alphabet: Alphabet) -> Matcher:
        return cls(alphabet, grammar.start)

    def allows(self, ids: Ids) -> Flags:
        if self.state is None:
            return self.alphabet.ends[ids]
        walk = _one_by_one if ids.size < _FEW else _level_by_level
        return np.where(self.alphabet.ends[ids], self.state.ends, walk(self.state, ids, self.alphabet))

    def after(self, token: Token) -> Matcher | None:
        """The state after one more token; None where it is not allowed."""
        if self.alphabet.ends[token]:
            return Matcher(self.alphabet, None) if self.state is None or self.state.ends else None
        piece = self.alphabet.pieces[token]
        state = self.state.after_all(piece) if piece and self.state is not None else None
        return None if state is None else Matcher(self.alphabet, state)


def _one_by_one(state: State, ids: Ids, alphabet: Alphabet) -> Flags:
    pieces = [alphabet.pieces[token] for token in ids.tolist()]
    return np.array([bool(piece) and state.after_all(piece) is not None for piece in pieces], np.bool_)


def _level_by_level(state: State, ids: Ids, alphabet: Alphabet) -> Flags:
    sizes, starts = alphabet.sizes[ids], alphabet.starts[ids]
    matched = np.zeros(ids.size, np.bool_)
    numbers = {state: 0}
    alive = np.flatnonzero(sizes)
    at = np.zeros(alive.size, np.int64)
    depth = 0
    while alive.size:
        moves = at * 256 + alphabet.flat[starts[alive] + depth]
        at = _targets(moves, numbers)[moves]
        alive, at = alive[at >= 0], at[at >= 0]
        depth += 1
        whole = sizes[alive] == depth
        matched[alive[whole]] = True
        alive, at = alive[~whole], at[~whole]
    return matched


def _targets(moves: NDArray[np.int64], numbers: dict[State, int]) -> NDArray[np.int64]:
    """The number of the state to which each move (state * 256 + byte) leads, -1: none. New states get numbers."""
    states = list(numbers)
    wanted = np.zeros(len(states) * 256, np.bool_)
    wanted[moves] = True
    targets = np.full(wanted.size, -1, np.int64)
    for move in np.flatnonzero(wanted).tolist():
        target = states[move >> 8].after(move & 255)
        if target is not None:
            targets[move] = numbers.setdefault(target, len(numbers))
    return targets
