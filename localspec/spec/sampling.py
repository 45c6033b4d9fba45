"""A logits row becomes a probability row. One function, shared by the plain path and the block path.

The order is llama.cpp's default: logit bias and bans, penalties, top-k, top-p, min-p, temperature, softmax. top-p
and min-p look at the softmax of the logits as they come, before the temperature. Ties are broken by (-logit, id)
everywhere, so that plain and speculative decoding cut the same set. Knows nothing of drafts being accepted.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelError
from localspec.spec.distribution import Distribution, certain
from localspec.spec.settings import Sampling
from localspec.spec.types import Logits, Token, Tokens

__all__ = ["LazyRows", "Sampling", "distribution"]

_BLOCK = 256
Ids = NDArray[np.int32]


class LazyRows:
    """p_1 .. p_(k+1): the target's transformed distributions along a draft, computed when asked for.

    Row i sees the history *and* the drafted tokens before it, so that penalties are those of plain decoding.
    """

    def __init__(self, logits: Logits, history: Tokens, drafted: tuple[Token, ...], sampling: Sampling) -> None:
        self._logits, self._sampling = logits, sampling
        self._window = np.concatenate((_window(history, sampling), np.asarray(drafted, np.int32)))
        self._before = self._window.size - len(drafted)
        self._rows: dict[int, Distribution] = {}

    def __getitem__(self, i: int) -> Distribution:
        if i not in self._rows:
            before = self._window[: self._before + i]
            self._rows[i] = distribution(self._logits[i], before, self._sampling)
        return self._rows[i]


def distribution(row: Logits, history: Tokens, sampling: Sampling) -> Distribution:
    """The distribution of the next token, from float32 logits (n_vocab,) and the tokens before it.

    Raises ModelError for NaN logits and for a row in which no token is possible.
    """
    row = _adjusted(row, history, sampling)
    if sampling.greedy:
        return certain(_argmax(row))
    ids = _truncated(row, sampling)
    logits = row if ids is None else row[ids]
    return Distribution(ids, _softmax(logits, sampling.temperature))


def _window(history: Tokens, sampling: Sampling) -> Ids:
    if not sampling.penalised:
        return np.empty(0, np.int32)
    last = sampling.penalty_last_n
    return np.asarray(history if last < 0 else history[-last:], np.int32)


def _adjusted(row: Logits, history: Tokens, sampling: Sampling) -> Logits:
    """Bias, bans and penalties; the row itself belongs to the model and is not written to."""
    if not (sampling.penalised or sampling.logit_bias or sampling.banned):
        return row
    row = row.copy()
    for token, bias in sampling.logit_bias:
        row[token] += bias
    if sampling.banned:
        row[list(sampling.banned)] = -np.inf
    if sampling.penalised:
        _penalise(row, _window(history, sampling), sampling)
    return row


def _penalise(row: Logits, window: Ids, sampling: Sampling) -> None:
    ids, counts = np.unique(window, return_counts=True)
    seen = row[ids]
    seen = np.where(seen <= 0, seen * sampling.repeat_penalty, seen / sampling.repeat_penalty)
    row[ids] = seen - counts * sampling.frequency_penalty - sampling.presence_penalty


def _argmax(row: Logits) -> Token:
    best = int(row.argmax())  # the first of equal maxima, and the first NaN if there is one
    _check(float(row[best]))
    return best


def _check(maximum: float) -> None:
    if math.isnan(maximum):
        raise ModelError(
            "The model computed NaN logits.",
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
    k = sampling.top_k if 0 < sampling.top_k < row.size else 0
    if not k and sampling.top_p == 1 and sampling.min_p == 0:
        _check(float(row.max()))
        return None
    if k:
        ids = _best(row, k)
        return ids[: _prefix(row[ids].astype(np.float64), None, sampling)]
    return _truncated_by_mass(row, sampling)


def _truncated_by_mass(row: Logits, sampling: Sampling) -> Ids:
    """top-p and min-p without top-k: take ever more candidates until the cut lies inside them."""
    maximum = float(row.max())
    _check(maximum)
    mass = float(np.exp(row - maximum).sum(dtype=np.float64)) if sampling.top_p < 1 else None
    n = 1024
    while True:
        ids = _best(row, min(n, row.size))
        keep = _prefix(row[ids].astype(np.float64), mass, sampling)
        if keep < ids.size or ids.size == row.size:
            return ids[:keep]
        n *= 8


def _prefix(logits: NDArray[np.float64], mass: float | None, sampling: Sampling) -> int:
    """How many of these descending logits top-p and min-p keep. `mass` is the sum of exp(logit - max) over the
    whole row when it reaches beyond these."""
    weights = np.exp(logits - logits[0])
    keep = logits.size
    if sampling.top_p < 1:
        total = float(weights.sum()) if mass is None else mass
        keep = int(np.searchsorted(np.cumsum(weights), sampling.top_p * total, side="left")) + 1
    if sampling.min_p > 0:
        keep = min(keep, int(np.searchsorted(-weights, -sampling.min_p, side="right")))
    return max(1, min(keep, logits.size))


def _best(row: Logits, k: int) -> Ids:
    """The k best ids, ordered by (-logit, id). Exact: the k-th largest block maximum is a lower bound of the k-th
    best logit, so only blocks that reach it are looked into (2-4 times faster than a partition of 262k)."""
    whole = row.size - row.size % _BLOCK
    blocks = row[:whole].reshape(-1, _BLOCK)
    if blocks.shape[0] < 2 * k:
        return _ordered(np.arange(row.size, dtype=np.int32), row, k)
    maxima = blocks.max(axis=1)
    threshold = np.partition(maxima, -k)[-k]
    _check(float(threshold) if math.isnan(threshold) else float(maxima.max()))
    which = np.flatnonzero(maxima >= threshold)
    candidates = (which[:, None] * _BLOCK + np.arange(_BLOCK)).ravel()
    if whole < row.size:
        candidates = np.concatenate((candidates, np.arange(whole, row.size)))
    return _ordered(candidates[row[candidates] >= threshold].astype(np.int32), row, k)


def _ordered(ids: Ids, row: Logits, k: int) -> Ids:
    logits = row[ids]
    if ids.size > 4 * k:
        threshold = np.partition(logits, -k)[-k]
        ids = ids[logits >= threshold]
        logits = row[ids]
    order = np.lexsort((ids, -logits))[:k]
    ids = ids[order]
    _check(float(logits[order[0]]))
    return ids


def _softmax(logits: Logits, temperature: float) -> NDArray[np.float64]:
    weights = logits.astype(np.float64)
    weights -= weights.max()
    weights /= temperature
    np.exp(weights, out=weights)
    weights /= weights.sum()
    return weights
