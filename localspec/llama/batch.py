"""One native batch, allocated once and rewritten for every decode.

Without numpy: a pass of the model drives its code out of the caches, and a few list items are written sooner than it
comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import addressof, c_int8, c_int32

from localspec.llama.native import Native, Pointer, lc


class Batch:
    """Room for `capacity` tokens of sequence 0."""

    def __init__(self, native: Native, capacity: int) -> None:
        self._batch: Pointer = native.own(lc.llama_batch_init(capacity, 0, 1), lc.llama_batch_free)
        integers, flags = c_int32 * capacity, c_int8 * capacity
        self._token = integers.from_address(addressof(self._batch.token.contents))
        self._position = integers.from_address(addressof(self._batch.pos.contents))
        self._wanted = flags.from_address(addressof(self._batch.logits.contents))
        for i in range(capacity):
            self._batch.n_seq_id[i] = 1
            self._batch.seq_id[i][0] = 0

    def fill(self, tokens: Sequence[int], start: int, rows: int) -> Pointer:
        """`tokens` at positions from `start` on; logits are wanted for the last `rows`."""
        n = len(tokens)
        self._token[:n] = [*tokens]
        self._position[:n] = [*range(start, start + n)]
        self._wanted[:n] = [*bytes(n - rows), *b"\1" * rows]
        self._batch.n_tokens = n
        return self._batch
