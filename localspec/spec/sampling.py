"""A logits row becomes a probability row. One function, shared by the plain path and the block path.

The order is llama.cpp's default: logit bias and bans, penalties, top-k, top-p, min-p, temperature, softmax. top-p
and min-p look at the softmax of the logits as they come, before the temperature. Ties are broken by (-logit, id)
everywhere, so that plain and speculative decoding cut the same set. Knows nothing of drafts being accepted.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelError
from localspec.spec.distribution import FEW, Distribution, certain
from localspec.spec.settings import Sampling
from localspec.spec.types import Logits, LogProb, Token, Tokens

__all__ = [
    "LazyRows",
    "Sampling",
    "adjusted",
    "best",
    "distribution",
    "log_probability",
    "peak",
    "prefix",
    "softmax",
]

_BLOCK = 256
Ids = NDArray[np.int32]
_NOTHING = np.empty(0, np.int32)


class LazyRows:
    """p_1 .. p_(k+1): the target's transformed distributions along a draft, computed when asked for.

    Row i sees the history *and* the drafted tokens before it, so that penalties are those of plain decoding.
    """

    def __init__(self, logits: Logits, history: Tokens, drafted: tuple[Token, ...], sampling: Sampling) -> None:
        self._logits, self._sampling = logits, sampling
        self._window, self._before = _NOTHING, 0
        if sampling.penalised:
            self._window = np.concatenate((_window(history, sampling), np.asarray(drafted, np.int32)))
            self._before = self._window.size - len(drafted)
        self._rows: dict[int, Distribution] = {}

    def __getitem__(self, i: int) -> Distribution:
        if i not in self._rows:
            self._rows[i] = self._row(i, self._window[: self._before + i])
        return self._rows[i]

    def _row(self, i: int, before: Ids) -> Distribution:
        return distribution(self._logits[i], before, self._sampling)


def distribution(row: Logits, history: Tokens, sampling: Sampling) -> Distribution:
    """The distribution of the next token, from float32 logits (n_vocab,) and the tokens before it.

    Raises ModelError for NaN logits and for a row in which no token is possible.
    """
    row = adjusted(row, history, sampling)
    if sampling.greedy:
        token = int(row.argmax())  # the first of equal maxima, and the first NaN if there is one
        _check(float(row[token]))
        return certain(token)
    if 0 < sampling.top_k <= min(FEW, row.size - 1):
        return _of_few(row, sampling)
    ids = _truncated(row, sampling)
    if ids is None:
        return Distribution(None, softmax(row, peak(row), sampling.temperature))
    return Distribution(ids, softmax(row[ids], float(row[ids[0]]), sampling.temperature))


def _of_few(row: Logits, sampling: Sampling) -> Distribution:
    """The same of at most `FEW` tokens, without numpy where it can be done."""
    ids = _reaching(row, _bound(row, sampling.top_k))
    logits: list[float] = row[ids].tolist()
    order = sorted(range(len(logits)), key=logits.__getitem__, reverse=True)[: sampling.top_k]
    logits = [logits[i] for i in order]
    top = logits[0]
    keep = _prefix_of_few([math.exp(logit - top) for logit in logits], sampling)
    weights = [math.exp((logit - top) / sampling.temperature) for logit in logits[:keep]]
    total = sum(weights)
    return Distribution(ids[order[:keep]], np.array([weight / total for weight in weights]))


def _prefix_of_few(weights: list[float], sampling: Sampling) -> int:
    """What `prefix` says, of weights that descend."""
    keep = len(weights)
    if sampling.top_p < 1:
        mass = list(accumulate(weights))
        keep = bisect_left(mass, sampling.top_p * mass[-1]) + 1
    if sampling.min_p > 0:
        keep = min(keep, sum(weight >= sampling.min_p for weight in weights))
    return keep


def log_probability(row: Logits, token: Token, top: int) -> LogProb:
    """What the model itself thinks of `token`: see LogProb."""
    maximum = peak(row)
    normaliser = maximum + math.log(float(_weights(row, maximum).sum()))
    ids = best(row, min(top, row.size)).tolist() if top > 0 else []
    finite = tuple((i, float(row[i]) - normaliser) for i in ids if row[i] > -math.inf)
    return LogProb(token, float(row[token]) - normaliser, finite)


def _window(history: Tokens, sampling: Sampling) -> Ids:
    if not sampling.penalised:
        return _NOTHING
    last = sampling.penalty_last_n
    return np.asarray(history if last < 0 else history[-last:], np.int32)


def adjusted(row: Logits, history: Tokens, sampling: Sampling) -> Logits:
    """Bias, bans and penalties; the row itself belongs to the model and is not written to."""
    if not (sampling.penalised or sampling.logit_bias or sampling.banned):
        return row
    row = row.copy()
    for token, bias in sampling.logit_bias:
        row[token] += bias
    for token in sampling.banned:
        row[token] = -np.inf
    if sampling.penalised:
        _penalise(row, _window(history, sampling), sampling)
    return row


def _penalise(row: Logits, window: Ids, sampling: Sampling) -> None:
    ids, counts = np.unique(window, return_counts=True)
    seen = row[ids]
    seen = np.where(seen <= 0, seen * sampling.repeat_penalty, seen / sampling.repeat_penalty)
    row[ids] = seen - counts * sampling.frequency_penalty - sampling.presence_penalty


def peak(row: Logits) -> float:
    """The largest logit; raises ModelError where there is none to speak of."""
    maximum = float(row.max())  # NaN anywhere makes it NaN
    _check(maximum)
    return maximum


def _check(maximum: float) -> None:
    if math.isnan(maximum) or maximum == math.inf:
        raise ModelError(
            "The model computed NaN or infinite logits.",
            "The file is damaged, or this backend can't run it: try --gpu-layers 0, another quantisation, or "
            "--flash-attn off.",
        )
    if maximum == -math.inf:
        raise ModelError(
            "No token is possible here: every logit is minus infinity.",
            "Relax --ban-token, --logit-bias or the grammar.",
        )


def _truncated(row: Logits, sampling: Sampling) -> Ids | None:
    """The ids that survive top-k, top-p and min-p, best first; None when nothing truncates.

    All three keep a prefix of the same order, so the shortest prefix wins. Only top-p needs the mass of what top-k
    kept, which is the mass of the whole row when top-k is off.
    """
    if 0 < sampling.top_k < row.size:
        ids = best(row, sampling.top_k)
        return ids[: prefix(row[ids].astype(np.float64), None, sampling)]
    if sampling.top_p < 1 or sampling.min_p > 0:
        return _truncated_by_mass(row, sampling)
    return None


def _truncated_by_mass(row: Logits, sampling: Sampling) -> Ids:
    """top-p and min-p without top-k: take ever more candidates until the cut lies inside them."""
    mass = float(_weights(row, peak(row)).sum()) if sampling.top_p < 1 else None
    n = 128
    while True:
        ids = best(row, min(n, row.size))
        keep = prefix(row[ids].astype(np.float64), mass, sampling)
        if keep < ids.size or ids.size == row.size:
            return ids[:keep]
        n *= 8


def prefix(logits: NDArray[np.float64], mass: float | None, sampling: Sampling) -> int:
    """How many of these descending logits top-p and min-p keep. `mass` is the sum of exp(logit - max) over the
    whole row when it reaches beyond these."""
    weights = np.exp(logits - logits[0])
    keep = logits.size
    if sampling.top_p < 1:
        total = float(weights.sum()) if mass is None else mass
        keep = int(np.searchsorted(np.cumsum(weights), sampling.top_p * total, side="left")) + 1
    if sampling.min_p > 0:
        keep = min(keep, int(np.searchsorted(-weights, -sampling.min_p, side="right")))
    return keep


def best(row: Logits, k: int) -> Ids:
    """The k best ids, ordered by (-logit, id). Raises ModelError for a row without a finite maximum."""
    ids = _reaching(row, _bound(row, k))
    # Ids ascend up to here, so a stable sort leaves equal logits in the order of their ids.
    return ids[(-row[ids]).argsort(kind="stable")[:k]]


def _reaching(row: Logits, bound: float) -> Ids:
    return (row >= bound).nonzero()[0].astype(np.int32)


def _bound(row: Logits, k: int) -> float:
    """No more than the k-th best logit, and close to it: the k-th largest block maximum, which is found several times
    faster than by a partition of the whole row."""
    if row.size < 2 * k * _BLOCK:
        peak(row)
        return float(np.partition(row, -k)[-k])
    maxima = np.maximum.reduceat(row, _starts(row.size))
    maxima.partition(-k)
    largest: list[float] = maxima[-k:].tolist()  # NaN would be among them
    _check(max(largest) if sum(largest) == sum(largest) else math.nan)
    return largest[0] if largest[0] > -math.inf else float(np.partition(row, -k)[-k])


@lru_cache(maxsize=4)
def _starts(size: int) -> NDArray[np.int64]:
    return np.arange(0, size, _BLOCK)


def softmax(logits: Logits, maximum: float, temperature: float) -> NDArray[np.float64]:
    weights = _weights(logits, maximum, temperature)
    weights *= 1.0 / weights.sum()
    return weights


def _weights(logits: Logits, maximum: float, temperature: float = 1.0) -> NDArray[np.float64]:
    """exp((logit - max) / temperature), in double precision: the sums behind a cut must not depend on the order."""
    weights = logits.astype(np.float64)
    weights -= maximum
    if temperature != 1:
        with np.errstate(over="ignore"):  # a temperature near 0 sends all but the best to minus infinity
            weights /= temperature
    return np.exp(weights, out=weights)
