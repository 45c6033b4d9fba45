"""Lossy acceptance keeps more than the exact rule, never what the target forbids, and has a name that says so."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.errors import UnknownName, UsageError
from localspec.spec.distribution import Distribution
from localspec.spec.lossy import verifier
from localspec.spec.rules import EXACT, is_lossy
from localspec.spec.types import Draft
from localspec.spec.verify import VERIFIERS


def dense(*probs: float) -> Distribution:
    return Distribution(None, np.array(probs))


P = dense(0.5, 0.3, 0.15, 0.05, 0.0)


@pytest.mark.parametrize(("token", "kept"), [(0, 1), (1, 1), (2, 0), (3, 0), (4, 0)])
def test_relaxed_accepts_what_is_likely_enough_beside_the_best(token: int, kept: int) -> None:
    assert verifier("relaxed=0.5")([P, P], Draft((token,)), default_rng(1)).accepted == kept


def test_relaxed_never_accepts_the_impossible() -> None:
    assert verifier("relaxed=0.0000001")([P, P], Draft((4,)), default_rng(1)).accepted == 0


def test_typical_is_stricter_where_the_target_is_sure() -> None:
    """threshold = min(E, sqrt(E) exp(-H)): 0.3 for a sure target, 0.137 for four equal tokens."""
    rule = verifier("typical=0.3")
    sure, unsure = dense(0.75, 0.25, 0.0, 0.0), dense(0.25, 0.25, 0.25, 0.25)
    assert rule([sure, sure], Draft((1,)), default_rng(1)).accepted == 0
    assert rule([unsure, unsure], Draft((1,)), default_rng(1)).accepted == 1


def test_rejection_draws_from_the_target() -> None:
    rng, rule = default_rng(1), verifier("relaxed=0.9")
    drawn = [rule([P, P], Draft((3,)), rng).token for _ in range(4000)]
    assert np.bincount(drawn, minlength=5) / 4000 == pytest.approx(P.probs, abs=0.03)


@pytest.mark.parametrize("name", ["relaxed=0", "relaxed=1.1", "relaxed=much", "relaxed=nan"])
def test_value_out_of_range_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="--lossy"):
        verifier(name)


def test_names() -> None:
    with pytest.raises(UnknownName, match="lossy rule"):
        verifier("tipical=0.3")
    with pytest.raises(UnknownName, match="verifier"):
        verifier("blok")
    assert is_lossy("typical=0.3")
    assert not any(map(is_lossy, VERIFIERS))
    assert set(EXACT) == set(VERIFIERS)
