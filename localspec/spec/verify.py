"""The exact rule: which drafted tokens stay, and what the target puts after them. Pure functions.

Letters as in the papers: x_1..x_k drafted, q_i the distribution that x_i was really drawn from, p_i the target's at
the same place, p_(k+1) the one after the draft. Rows are indexed from 0: `p[i]` is p_(i+1). A certain proposal
is a one-hot q, a greedy target a one-hot p; both are ordinary cases. docs/exactness.md has the conditions.
"""

from __future__ import annotations

from typing import Protocol

from numpy.random import Generator

from localspec.spec.distribution import Distribution, certain, draw, excess
from localspec.spec.types import Draft, Token, Verdict


class ProbRows(Protocol):
    """The target's rows; computed lazily, so ask for as few as the rule needs."""

    def __getitem__(self, i: int, /) -> Distribution: ...


class Verifier(Protocol):
    def __call__(self, p: ProbRows, draft: Draft, rng: Generator) -> Verdict: ...


def verify_tokens(p: ProbRows, draft: Draft, rng: Generator) -> Verdict:
    """Leviathan et al. 2023, Chen et al. 2023: accept x_i with probability min(1, p_i/q_i), one by one."""
    if draft.probs is None:
        return _compare(p, draft, rng)
    for i, token in enumerate(draft.tokens):
        q = proposal(draft, i)
        # random() is in [0, 1): strictly below keeps "never" at ratio 0 and "always" at ratio 1.
        if not rng.random() < p[i].prob(token) / q.prob(token):
            return Verdict(i, _correction(p[i], q, 1.0, rng))
    return Verdict(len(draft.tokens), p[len(draft.tokens)].sample(rng))


def verify_block(p: ProbRows, draft: Draft, rng: Generator) -> Verdict:
    """Block verification (Sun et al., ICLR 2025): accepts the longest prefix by the joint ratio r_i.

    Never accepts fewer tokens in expectation than token verification. Once r_i is 0 no longer prefix can be
    accepted, so greedy and truncated targets stop reading rows there.
    """
    if draft.probs is None:
        return _compare(p, draft, rng)
    q, k = draft.probs, len(draft.tokens)
    r, kept, r_kept = 1.0, 0, 1.0
    for i, token in enumerate(draft.tokens, 1):
        r = min(1.0, r * p[i - 1].prob(token) / q[i - 1].prob(token))
        if r == 0.0:
            break
        if rng.random() < (r if i == k else _acceptance(p[i], q[i], r)):
            kept, r_kept = i, r
    if kept == k:
        return Verdict(k, p[k].sample(rng))
    return Verdict(kept, _correction(p[kept], q[kept], r_kept, rng))


def _compare(p: ProbRows, draft: Draft, rng: Generator) -> Verdict:
    """A certain proposal stays as long as the target draws the same. No rule accepts it more often than that: with
    probability p(x). And each token takes the random numbers that plain decoding takes for it, so the same seed
    gives the same text whatever was proposed, or nothing."""
    for i, token in enumerate(draft.tokens):
        drawn = p[i].sample(rng)
        if drawn != token:
            return Verdict(i, drawn)
    return Verdict(len(draft.tokens), p[len(draft.tokens)].sample(rng))


def _acceptance(p: Distribution, q: Distribution, r: float) -> float:
    """h_i = s_i / (s_i + 1 - r_i) with s_i = sum max(0, r_i p_(i+1) - q_(i+1)); 1 where that is 0/0."""
    if r == 1.0:
        return 1.0
    s = float(excess(p, q, r).sum())
    return s / (s + 1.0 - r)


def _correction(p: Distribution, q: Distribution, r: float, rng: Generator) -> Token:
    weights = excess(p, q, r)
    # All zero by rounding, where p and q agree: any draw from p is right then.
    return p.token_at(draw(weights, rng)) if weights.any() else p.sample(rng)


def proposal(draft: Draft, i: int) -> Distribution:
    """q_(i+1): what the drafter drew the token from, or certainty."""
    return certain(draft.tokens[i]) if draft.probs is None else draft.probs[i]


VERIFIERS: dict[str, Verifier] = {"block": verify_block, "token": verify_tokens}
