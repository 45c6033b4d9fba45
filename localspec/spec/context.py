"""Tokens as one growing int32 array: views are free, and a common prefix is one vectorised comparison.

The common prefix is how a model's cache finds its way back, whatever happened to the text.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from localspec.errors import CannotRewind
from localspec.spec.types import LanguageModel, Tokens


class TokenBuffer:
    """Append and cut at the end. `view` stays valid until the next append."""

    def __init__(self, tokens: Tokens = ()) -> None:
        self._data = np.empty(1024, np.int32)
        self._size = 0
        self.extend(tokens)

    def __len__(self) -> int:
        return self._size

    @property
    def view(self) -> NDArray[np.int32]:
        return self._data[: self._size]

    def extend(self, tokens: Tokens) -> None:
        size = self._size + len(tokens)
        if size > self._data.size:
            self._data = np.concatenate((self.view, np.empty(2 * size - self._size, np.int32)))
        self._data[self._size : size] = tokens
        self._size = size

    def truncate(self, length: int) -> None:
        self._size = min(length, self._size)


def common_prefix(a: Tokens, b: Tokens) -> int:
    """The number of leading tokens that a and b share."""
    n = min(len(a), len(b))
    left, right = np.asarray(a[:n], np.int32), np.asarray(b[:n], np.int32)
    # Contexts nearly always extend each other: the cheap whole comparison first.
    if np.array_equal(left, right):
        return n
    return int((left != right).argmax())


def rewind_to_common(model: LanguageModel, tokens: Tokens) -> int:
    """Cut the model's cache to what it shares with `tokens`, or to the longest part of that which it can be cut to.
    Returns how many tokens are left in it."""
    length = common_prefix(model.cached, tokens)
    while True:
        try:
            model.rewind(length)
            return length
        except CannotRewind as refused:
            length = min(refused.reachable, length - 1)
