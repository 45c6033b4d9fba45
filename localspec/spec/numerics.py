"""Does the width of a batch change the logits? Measured, never assumed (docs/exactness.md).

Backends pick kernels by the number of rows, so the same token may get logits that differ in the last bit when it is
decoded in company; at a near tie that flips a greedy choice. Where no bit differs, greedy text with drafts is that
of plain decoding to the bit. Knows the LanguageModel seam only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.spec.context import rewind_to_common
from localspec.spec.types import LanguageModel, Logits, Token

WIDTHS = (2, 5, 9)  # the kernels of today's backends change below these, and 9 is the default draft with its bonus
DEEP = (2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 20, 24, 32)
SHORT = 16  # tokens of context: attention must have something to add up
LONG = 600  # tokens of context: from 512 cells on, a single row may take a path that several rows don't


@dataclass(frozen=True, slots=True)
class Numerics:
    """Batches of up to `widest` rows give the logits of single rows to the bit; 1: none does. `noise` is the
    largest difference of any logit at the first width that differs, 0.0 where none of `tested` did. `context` is
    the length of the text after which that was measured."""

    widest: int
    noise: float
    tested: tuple[int, ...]
    context: int

    def __str__(self) -> str:
        where = f"(measured after {self.context} tokens)"
        if self.noise == 0.0:
            return f"bit-identical up to {self.widest} rows, as far as tested {where}"
        if self.widest > 1:
            return f"bit-identical up to {self.widest} rows, beyond that logits differ by {self.noise:.2g} {where}"
        return f"logits differ by up to {self.noise:.2g} between one row and several {where}"


def probe(model: LanguageModel, *, deep: bool = False) -> Numerics:
    """Decode the same tokens one by one and in batches; leaves the cache empty.

    `deep` tries every width, and also after a long text; it takes as long as reading that text does.
    """
    most = min(model.max_rows, model.n_batch, model.n_ctx - SHORT)
    widths = [width for width in (DEEP if deep else WIDTHS) if width <= most]
    found = [_probe(model, widths, SHORT)]
    if deep:
        found.append(_probe(model, widths, min(LONG, model.n_ctx - max(widths, default=1))))
    model.rewind(0)
    return min(found, key=lambda result: (result.widest, -result.context))


def both_ways(model: LanguageModel, context: Sequence[Token], block: Sequence[Token]) -> tuple[Logits, Logits]:
    """The logits of `block` after `context`, decoded one by one, and as one batch."""
    _bring_to(model, context)
    single = np.stack([model.decode((token,), rows=1)[0].copy() for token in block])
    _bring_to(model, context)
    return single, model.decode(block, rows=len(block)).copy()


def difference(a: Logits, b: Logits) -> float:
    """The largest one; 0.0 only where every bit is the same."""
    same = a == b  # equal infinities (banned rows) would give NaN as a difference
    return 0.0 if same.all() else float(np.abs(a[~same] - b[~same]).max())


def _probe(model: LanguageModel, widths: Sequence[int], length: int) -> Numerics:
    tokens = spread_ids(model.n_vocab, length + max(widths, default=1))
    context, after = tokens[:length], tokens[length:]
    model.rewind(0)
    _bring_to(model, context)
    single = np.stack([model.decode((token,), rows=1)[0].copy() for token in after])
    widest = 1
    for tested, width in enumerate(widths, 1):
        _bring_to(model, context)
        noise = difference(model.decode(after[:width], rows=width), single[:width])
        if noise > 0.0:
            return Numerics(widest, noise, tuple(widths[:tested]), length)
        widest = width
    return Numerics(widest, 0.0, tuple(widths), length)


def _bring_to(model: LanguageModel, context: Sequence[Token]) -> None:
    """Cut the cache to `context`, or as far as it can be cut, and read the rest."""
    start = rewind_to_common(model, context)
    for begin in range(start, len(context), model.n_batch):
        model.decode(context[begin : min(begin + model.n_batch, len(context))], rows=0)


def spread_ids(n_vocab: int, n: int) -> list[Token]:
    """Ids spread over the vocabulary, the same each time; the lowest ones are often control tokens."""
    return [(7919 * (i + 1)) % n_vocab for i in range(n)]
