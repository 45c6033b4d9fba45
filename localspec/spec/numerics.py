"""Does the width of a batch change the logits? Measured, never assumed (docs/exactness.md).

Backends pick kernels by the number of rows, so the same token may get logits that differ in the last bit when it is
decoded in company; at a near tie that flips a greedy choice. Where no bit differs, greedy text with drafts is that
of plain decoding to the bit. Knows the LanguageModel seam only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.spec.types import LanguageModel, Token

WIDTHS = (2, 3, 5, 9)  # the kernels of today's backends change between these
DEEP = (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 20, 24, 32)


@dataclass(frozen=True, slots=True)
class Numerics:
    """Batches of up to `widest` rows give the logits of single rows to the bit; 1: none does. `noise` is the
    largest difference of any logit at the first width that differs, 0.0 where none of `tested` did."""

    widest: int
    noise: float
    tested: tuple[int, ...]

    def __str__(self) -> str:
        if self.noise == 0.0:
            return f"bit-identical up to {self.widest} rows (as far as tested)"
        if self.widest > 1:
            return f"bit-identical up to {self.widest} rows, beyond that logits differ by up to {self.noise:.2g}"
        return f"logits differ by up to {self.noise:.2g} between one row and several"


def probe(model: LanguageModel, widths: Sequence[int] = WIDTHS) -> Numerics:
    """Decode the same tokens one by one and in batches of each width; leaves the cache empty.

    Raises CannotRewind on a model whose cache can't be cut: there drafts can't be checked either.
    """
    widths = [w for w in sorted(widths) if w <= min(model.max_rows, model.n_batch, model.n_ctx - 1)]
    tokens = _tokens(model.n_vocab, max(widths, default=1) + 1)
    model.rewind(0)
    model.decode(tokens[:1], rows=0)
    single = np.stack([model.decode((token,), rows=1)[0].copy() for token in tokens[1:]])
    widest = 1
    noise = 0.0
    for tested, width in enumerate(widths, 1):
        model.rewind(1)
        noise = _difference(model.decode(tokens[1 : width + 1], rows=width), single[:width])
        if noise > 0.0:
            widths = widths[:tested]
            break
        widest = width
    model.rewind(0)
    return Numerics(widest, noise, tuple(widths))


def _difference(a: np.ndarray, b: np.ndarray) -> float:
    same = a == b  # equal infinities (banned rows) would give NaN as a difference
    return 0.0 if same.all() else float(np.abs(a[~same] - b[~same]).max())


def _tokens(n_vocab: int, n: int) -> list[Token]:
    """Ids spread over the vocabulary, the same each time; the lowest ones are often control tokens."""
    return [(7919 * (i + 1)) % n_vocab for i in range(n)]
