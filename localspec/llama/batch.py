"""One native batch, allocated once and rewritten for every decode through numpy views."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from localspec.llama.native import Native, Pointer, lc


class Batch:
    """Room for `capacity` tokens of sequence 0."""

    def __init__(self, native: Native, capacity: int) -> None:
        self._batch: Pointer = native.own(lc.llama_batch_init(capacity, 0, 1), lc.llama_batch_free)
        as_array = np.ctypeslib.as_array
        self._token = as_array(self._batch.token, shape=(capacity,))
        self._position = as_array(self._batch.pos, shape=(capacity,))
        self._wanted = as_array(self._batch.logits, shape=(capacity,))
        as_array(self._batch.n_seq_id, shape=(capacity,))[:] = 1
        for i in range(capacity):
            self._batch.seq_id[i][0] = 0

    def fill(self, tokens: NDArray[np.integer[Any]], start: int, rows: int) -> Pointer:
        """`tokens` at positions from `start` on; logits are wanted for the last `rows`."""
        n = len(tokens)
        self._token[:n] = tokens
        self._position[:n] = np.arange(start, start + n)
        self._wanted[:n] = 0
        self._wanted[n - rows : n] = 1
        self._batch.n_tokens = n
        return self._batch
