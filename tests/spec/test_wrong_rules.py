"""Rules that are found in the wild and wrong, each put in the right one's place: the proof must notice.

Target p = (0.4, 0.3, 0.2, 0.1), draft q = (0.1, 0.2, 0.3, 0.4). The expected shares were worked out by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from localspec.spec import verify
from localspec.spec.distribution import Distribution, certain, excess
from localspec.spec.types import Draft, Verdict
from localspec.spec.verify import VERIFIERS, ProbRows, Verifier
from tests.spec.laws import Model, Prefix, Propose, assert_target_law, dense, emitted, mean_accepted

P, Q = dense([0.4, 0.3, 0.2, 0.1]), dense([0.1, 0.2, 0.3, 0.4])
PLACES = [(1, 0), (2, 0), (2, 1), (5, 0), (5, 1), (5, 2)]
"""Draft length, and the place in it where target and draft disagree; elsewhere both are certain of token 0."""


def only_at(place: int, row: Distribution) -> Model:
    return lambda prefix: row if len(prefix) == place else certain(0)


def proposing(draw: Callable[[Any], int], q: Distribution | None) -> Callable[[int, int], Propose]:
    """A drafter that draws with `draw` at the place, and says that it drew from `q` there (None: certain)."""

    def at(k: int, place: int) -> Propose:
        def propose(rng: Any) -> Draft:
            token = draw(rng)
            tokens = tuple(token if i == place else 0 for i in range(k))
            claimed = certain(token) if q is None else q
            return Draft(tokens, tuple(claimed if i == place else certain(0) for i in range(k)))

        return propose

    return at


from_q = proposing(Q.sample, Q)


@dataclass(frozen=True)
class Rule:
    name: str
    shares: tuple[float, ...]
    acceptance: float | None = None
    propose: Callable[[int, int], Propose] = from_q
    correction: Callable[..., int] | None = None
    wrap: Callable[[Verifier], Verifier] = lambda verifier: verifier


def compare_with_a_sample(verifier: Verifier) -> Verifier:
    """Sample the target and see whether it wrote the draft: the certain rule, whatever the draft was drawn from."""
    return lambda p, draft, rng: verifier(p, Draft(draft.tokens), rng)


def accept_everything(verifier: Verifier) -> Verifier:
    def always(p: ProbRows, draft: Draft, rng: Any) -> Verdict:
        return Verdict(len(draft.tokens), p[len(draft.tokens)].sample(rng))

    return always


def accept_the_most_likely(verifier: Verifier) -> Verifier:
    class Peaks:
        def __init__(self, p: ProbRows) -> None:
            self.p = p

        def __getitem__(self, i: int) -> Distribution:
            row = self.p[i]
            return certain(row.token_at(int(row.probs.argmax())))

    return lambda p, draft, rng: verifier(Peaks(p), draft, rng)


def from_p(p: Distribution, q: Distribution, r: float, rng: Any) -> int:
    return p.sample(rng)


def largest(p: Distribution, q: Distribution, r: float, rng: Any) -> int:
    return p.token_at(int(excess(p, q, r).argmax()))


def sharpened(rng: Any) -> int:
    return dense((Q.probs**2).tolist()).sample(rng)


RIGHT = [
    Rule("rejection sampling", (0.4, 0.3, 0.2, 0.1), 0.6),
    Rule("sample and compare", (0.4, 0.3, 0.2, 0.1), 0.2, wrap=compare_with_a_sample),
    *(
        Rule(
            f"certain of token {token}", (0.4, 0.3, 0.2, 0.1), P.prob(token), proposing(certain(token).sample, None)
        )
        for token in range(4)
    ),
]
WRONG = [
    Rule("a rejection draws from p", (0.26, 0.32, 0.28, 0.14), 0.6, correction=from_p),
    Rule("a rejection takes the largest excess", (0.5, 0.2, 0.2, 0.1), 0.6, correction=largest),
    Rule(
        "a greedy proposal with its soft probability", (0.5625, 0.1875, 0.0, 0.25), 0.25, proposing(lambda _: 3, Q)
    ),
    Rule(
        "a certain proposal as if from a uniform q",
        (0.45, 0.15, 0.0, 0.4),
        0.4,
        proposing(lambda _: 3, dense([1, 1, 1, 1])),
    ),
    Rule("drawn at temperature 0.5, claimed at 1", (0.4083, 0.2583, 0.2, 0.1333), None, proposing(sharpened, Q)),
    Rule("only the most likely token", (1.0, 0.0, 0.0, 0.0), wrap=accept_the_most_likely),
    Rule("everything is accepted", (0.1, 0.2, 0.3, 0.4), 1.0, wrap=accept_everything),
]


@pytest.fixture(params=VERIFIERS)
def verifier(request: pytest.FixtureRequest) -> Verifier:
    return VERIFIERS[request.param]


def outcomes(rule: Rule, verifier: Verifier, k: int, place: int, monkeypatch: Any) -> dict[Prefix, float]:
    if rule.correction is not None:
        monkeypatch.setattr(verify, "_correction", rule.correction)
    return emitted(only_at(place, P), rule.propose(k, place), rule.wrap(verifier))


@pytest.mark.parametrize("rule", RIGHT + WRONG, ids=lambda rule: rule.name)
def test_the_first_token_has_the_shares_worked_out_by_hand(
    rule: Rule, verifier: Verifier, monkeypatch: Any
) -> None:
    found = outcomes(rule, verifier, 1, 0, monkeypatch)
    shares = np.zeros(4)
    for tokens, probability in found.items():
        shares[tokens[0]] += probability
    assert shares == pytest.approx(rule.shares, abs=5e-4)
    if rule.acceptance is not None:
        assert mean_accepted(found) == pytest.approx(rule.acceptance, abs=1e-12)


@pytest.mark.parametrize(("k", "place"), PLACES)
@pytest.mark.parametrize("rule", RIGHT, ids=lambda rule: rule.name)
def test_a_right_rule_passes(rule: Rule, k: int, place: int, verifier: Verifier, monkeypatch: Any) -> None:
    assert_target_law(outcomes(rule, verifier, k, place, monkeypatch), only_at(place, P), 4, place + 2)


@pytest.mark.parametrize(("k", "place"), PLACES)
@pytest.mark.parametrize("rule", WRONG, ids=lambda rule: rule.name)
def test_a_wrong_rule_is_found_out(rule: Rule, k: int, place: int, verifier: Verifier, monkeypatch: Any) -> None:
    found = outcomes(rule, verifier, k, place, monkeypatch)
    with pytest.raises(AssertionError, match="instead of"):
        assert_target_law(found, only_at(place, P), 4, place + 2)
