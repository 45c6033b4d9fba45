"""Acceptance that trades the target's distribution for speed. Only when asked for by name, and labelled everywhere.

typical=E   accept x where p(x) >= min(E, sqrt(E) * exp(-entropy of p))    (Cai et al. 2024, Medusa)
relaxed=E   accept x where p(x) >= E * max p

After a rejection the token is drawn from p. These are no exact rules and no tests say so: `localspec verify` reports
how far the text diverges instead of PASS.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.random import Generator

from localspec.errors import UnknownName, UsageError
from localspec.spec.distribution import Distribution
from localspec.spec.types import Draft, Verdict
from localspec.spec.verify import VERIFIERS, ProbRows, Verifier

Threshold = Callable[[Distribution], float]


def typical(epsilon: float) -> Threshold:
    def threshold(p: Distribution) -> float:
        positive = p.probs[p.probs > 0]
        entropy = -float((positive * np.log(positive)).sum())
        return min(epsilon, math.sqrt(epsilon) * math.exp(-entropy))

    return threshold


def relaxed(epsilon: float) -> Threshold:
    return lambda p: epsilon * float(p.probs.max())


RULES: dict[str, Callable[[float], Threshold]] = {"typical": typical, "relaxed": relaxed}


def verifier(name: str) -> Verifier:
    """An exact rule by its name, or a lossy one as TYPE=VALUE. Raises UnknownName or UsageError."""
    if name in VERIFIERS:
        return VERIFIERS[name]
    kind, equals, value = name.partition("=")
    if not equals:
        raise UnknownName("verifier", name, VERIFIERS)
    if kind not in RULES:
        raise UnknownName("lossy rule", kind, RULES)
    try:
        epsilon = float(value)
    except ValueError:
        epsilon = math.nan
    if not 0 < epsilon <= 1:
        raise UsageError(f"--lossy is {name!r}.", "The value must be a number above 0 and at most 1.")
    return _accepting(RULES[kind](epsilon))


def _accepting(threshold: Threshold) -> Verifier:
    def verify(p: ProbRows, draft: Draft, rng: Generator) -> Verdict:
        for i, token in enumerate(draft.tokens):
            if p[i].prob(token) < threshold(p[i]) or p[i].prob(token) == 0.0:
                return Verdict(i, p[i].sample(rng))
        return Verdict(len(draft.tokens), p[len(draft.tokens)].sample(rng))

    return verify
