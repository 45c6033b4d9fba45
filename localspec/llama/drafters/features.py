"""What a target computed at some of its layers, by position, for a head that reads it later.

A head need not run after each decode: most of what a target computes to check a draft is thrown away with the draft.
Knows the buffers of a context, and no drafter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from localspec.llama import hidden
from localspec.llama.hidden import States
from localspec.llama.native import Pointer


class Features:
    """One row for each position from `first` up to `end`: the inputs of `layers`, side by side. The layer number
    `behind_last` stands for what leaves the last layer."""

    def __init__(self, context: Pointer, layers: Sequence[int], width: int, behind_last: int | None = None) -> None:
        self._context, self._layers, self._width, self._behind_last = context, layers, width, behind_last
        self._rows = np.empty((64, len(layers) * width), np.float32)
        self.first = self.end = 0
        for layer in layers:
            if layer == behind_last:
                hidden.keep_nextn(context, masked=False)
            else:
                hidden.keep_layer(context, layer)

    def __getitem__(self, positions: slice) -> States:
        return self._rows[positions.start - self.first : positions.stop - self.first]

    def add(self, count: int) -> None:
        """The rows of the last decode, which had `count` tokens."""
        held = self.end - self.first
        if held + count > len(self._rows):
            self._rows = np.concatenate(
                (self._rows[:held], np.empty((held + 2 * count, self._rows.shape[1]), "f4"))
            )
        for i, layer in enumerate(self._layers):
            columns = slice(i * self._width, (i + 1) * self._width)
            self._rows[held : held + count, columns] = self._read(layer, count)
        self.end += count

    def cut(self, end: int) -> None:
        """Forget what lies at `end` and behind it."""
        self.end = min(self.end, end)
        self.first = min(self.first, end)

    def drop(self, before: int) -> None:
        """Forget what lies before a position within these."""
        kept = self.end - before
        self._rows[:kept] = self._rows[before - self.first : self.end - self.first].copy()
        self.first = before

    def restart(self, position: int) -> None:
        """Forget everything; the next rows begin here."""
        self.first = self.end = position

    def _read(self, layer: int, count: int) -> States:
        if layer == self._behind_last:
            return hidden.nextn(self._context, count, self._width)
        return hidden.layer(self._context, layer, count, self._width)
