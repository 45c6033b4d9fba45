"""Copies of the part of a cache that can't be cut, and how many of them are kept.

What llama.cpp calls a partial state: the recurrent state, or the cells inside the attention window. The other part
can be cut, so a copy is only good while the tokens before it are still in the cache. Knows no model class.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.llama.native import Pointer, lc

PARTIAL: int = lc.LLAMA_STATE_SEQ_FLAGS_PARTIAL_ONLY
ON_DEVICE: int = (
    lc.LLAMA_STATE_SEQ_FLAGS_ON_DEVICE
)  # llama.cpp keeps the tensors, one set: the next save replaces it
BUDGET = 512 << 20


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state after `length` tokens."""

    length: int
    flags: int
    state: NDArray[np.uint8]


def save(context: Pointer, length: int, flags: int, most: int = BUDGET) -> Checkpoint | None:
    """None if it would be larger than `most`, or if llama.cpp fails."""
    size: int = lc.llama_state_seq_get_size_ext(context, 0, flags)
    if not 0 < size <= most:
        return None
    state = np.empty(size, np.uint8)
    written = lc.llama_state_seq_get_data_ext(context, _bytes(state), size, 0, flags)
    return Checkpoint(length, flags, state) if written == size else None


def restore(context: Pointer, memory: Pointer, checkpoint: Checkpoint) -> bool:
    """Put the state back and cut the rest of the cache to it. After a failure the cache must be cleared."""
    size = checkpoint.state.size
    if lc.llama_state_seq_set_data_ext(context, _bytes(checkpoint.state), size, 0, checkpoint.flags) != size:
        return False
    cut: bool = lc.llama_memory_seq_rm(memory, 0, checkpoint.length, -1)
    return cut


def _bytes(state: NDArray[np.uint8]) -> Pointer:
    return np.ctypeslib.as_ctypes(state)


class Ring:
    """Checkpoints of one text, in order. The oldest leave first when there are too many bytes."""

    def __init__(self, budget: int = BUDGET) -> None:
        self._budget = budget
        self._kept: list[Checkpoint] = []

    @property
    def bytes(self) -> int:
        return sum(kept.state.size for kept in self._kept)

    def add(self, checkpoint: Checkpoint) -> None:
        self._kept.append(checkpoint)
        while self.bytes > self._budget:
            del self._kept[0]

    def last(self, length: int) -> Checkpoint | None:
        """The last one within the first `length` tokens."""
        at = bisect_right(self._kept, length, key=lambda kept: kept.length)
        return self._kept[at - 1] if at else None

    def cut(self, length: int) -> None:
        """Forget what lies beyond the first `length` tokens."""
        del self._kept[bisect_right(self._kept, length, key=lambda kept: kept.length) :]
