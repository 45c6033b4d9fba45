"""Log-probabilities of emitted tokens: the model's own, whoever proposed the token and however it was drawn."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from localspec.spec.drafters import create
from localspec.spec.drafters.off import Off
from localspec.spec.sampling import log_probability
from localspec.spec.settings import Sampling
from localspec.spec.stats import fold
from localspec.spec.types import LogProb, Round
from localspec.spec.verify import VERIFIERS
from tests.fakes import FakeModel, at, noise, rambling
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, own_draft, ready, text

SCRIPT = rambling(V)


def expected(rounds: list[Round], top: int) -> list[LogProb]:
    """By the definition, from the script, one token after another."""
    found, context = [], list(PROMPT)
    for token in text(rounds):
        row = np.asarray(SCRIPT(tuple(context)), np.float32).astype(np.float64)
        logprobs = row - np.log(np.exp(row).sum())
        best = sorted(range(V), key=lambda i: (-row[i], i))[:top]
        found.append(LogProb(token, logprobs[token], tuple((i, logprobs[i]) for i in best)))
        context.append(token)
    return found


def flat(logprobs: list[LogProb]) -> list[float]:
    return [number for entry in logprobs for pair in ((entry.token, entry.logprob), *entry.top) for number in pair]


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("method", ["off", "lookup", "self"])
@pytest.mark.parametrize("sampling", [GREEDY, WARM, Sampling(1.5, 0, 1, 0, repeat_penalty=1.2, banned=(3,))])
def test_every_token_has_the_models_own_log_probability(sampling: Sampling, method: str, verifier: str) -> None:
    drafter = own_draft(SCRIPT) if method == "self" else create(method)
    rounds = answer(ready(FakeModel(SCRIPT, V), drafter, verifier=verifier), sampling=sampling, logprobs=3)
    assert method == "off" or fold(rounds).accepted > 2
    found = [entry for r in rounds for entry in r.logprobs]
    assert flat(found) == pytest.approx(flat(expected(rounds, 3)), abs=1e-9)
    assert max(entry.logprob for entry in found) < 0, "0 would be certainty"


def test_a_cut_round_has_as_many_as_it_emitted() -> None:
    rounds = answer(ready(FakeModel(SCRIPT, V), own_draft(SCRIPT)), ending=at(2), sampling=WARM, logprobs=0)
    assert rounds[-1].cut
    assert [entry.token for r in rounds for entry in r.logprobs] == text(rounds)
    assert all(entry.top == () for r in rounds for entry in r.logprobs)


def test_they_are_not_computed_unless_asked_for() -> None:
    rounds = answer(ready(FakeModel(noise(V), V), Off()))
    assert all(r.logprobs == () for r in rounds)


def test_impossible_tokens_are_no_alternatives() -> None:
    row = np.array([-np.inf, 0, -np.inf, 0, -np.inf], np.float32)
    half = -log(2)
    assert log_probability(row, 3, 20) == LogProb(3, half, ((1, half), (3, half)))


def test_large_logits_do_not_overflow() -> None:
    row = np.array([3e4, 3e4 - 1, -3e4], np.float32)
    assert log_probability(row, 1, 0).logprob == pytest.approx(-1.3132617)
    assert log_probability(row, 2, 0).logprob == pytest.approx(-60000.3132617)
