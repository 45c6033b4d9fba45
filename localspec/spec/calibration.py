"""What a pass over several rows costs beside a plain step, measured before the first answer needs it.

Without it the first answers pay for finding out, and one unlucky sample can park a drafter that would have won.
Knows the LanguageModel seam only.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from localspec.spec.context import rewind_to_common
from localspec.spec.numerics import SHORT, spread_ids
from localspec.spec.types import LanguageModel, Token

WIDTHS = (2, 4, 8, 16)  # what lies between is interpolated, and corrected by real rounds
BUDGET = 0.8  # seconds: a large model on a slow machine learns the wide ones by itself


def calibrate(
    model: LanguageModel, *, budget: float = BUDGET, clock: Callable[[], float] = perf_counter
) -> dict[int, float]:
    """Cost by number of rows, in plain steps; leaves the cache empty. Stops where the next width would exceed the
    `budget` in seconds, so it may return less than WIDTHS, or nothing."""
    most = min(model.max_rows, model.n_batch, model.n_ctx - SHORT)
    widths = [width for width in WIDTHS if width <= most]
    tokens = spread_ids(model.n_vocab, SHORT + max(widths, default=1))
    context, after = tokens[:SHORT], tokens[SHORT:]
    model.rewind(0)
    started, plain, costs, per_row = clock(), float("inf"), dict[int, float](), 0.0
    for width in widths:
        # Rows share what a pass costs anyway, so no row is dearer than those of the width before. Where that is
        # mostly the way to other machines, wide passes are hardly dearer than narrow ones.
        if costs and clock() - started + 2 * (plain + per_row * width) > budget:
            break
        # Twice each, and the faster counts: the first pass of a width builds its graph, and a stall is no cost.
        # Plain steps in between, so that a machine that slows down slows both.
        for _ in range(2):
            plain = min(plain, _seconds(model, context, after[:1], clock))
            costs[width] = min(costs.get(width, float("inf")), _seconds(model, context, after[:width], clock))
        per_row = costs[width] / width
    model.rewind(0)
    return {width: seconds / plain for width, seconds in costs.items()} if plain > 0 else {}


def _seconds(model: LanguageModel, context: list[Token], rows: list[Token], clock: Callable[[], float]) -> float:
    start = rewind_to_common(model, context)
    if start < len(context):
        model.decode(context[start:], rows=0)
    began = clock()
    model.decode(rows, rows=len(rows))
    return clock() - began
