"""The exact law through drafters with a head: every way in which the draws can fall, on the real models."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.llama.drafters.follower import Follower
from localspec.llama.model import LlamaModel
from localspec.spec.distribution import Distribution
from localspec.spec.sampling import LazyRows, distribution
from localspec.spec.settings import Sampling
from localspec.spec.verify import VERIFIERS
from tests.ggufs_heads import V, reduced
from tests.llama.drafting import GREEDY, PROMPT, Files, head, open_target, read
from tests.spec.enumeration import law
from tests.spec.laws import assert_target_law, mean_accepted

one_of_each = pytest.mark.parametrize("name", ["eagle3_reduced", "dflash", "dspark"])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("heads"))


model = pytest.fixture(scope="module", name="model")(open_target)
other = pytest.fixture(scope="module", name="other")(open_target)

ALLOWED = tuple(int(token) for token in sorted(reduced(90)) if token > 2)[:4]
BANNED = tuple(token for token in range(V) if token not in ALLOWED)
WARM = Sampling(temperature=1.3, top_k=0, top_p=1, min_p=0, banned=BANNED, repeat_penalty=1.2)


class TestLaw:
    """With all but four tokens banned every way in which the draws can fall is gone through, on the real models."""

    @pytest.mark.parametrize("unsure", [0.0, 0.6])
    @pytest.mark.parametrize("verifier", VERIFIERS)
    @one_of_each
    def test_what_is_emitted_has_the_targets_law(
        self, files: Files, model: LlamaModel, other: LlamaModel, name: str, verifier: str, unsure: float
    ) -> None:
        accepted = 0.0
        with closing(head(model, files(name), unsure=unsure)) as drafter:
            for salt in (1, 2):
                context = np.array(PROMPT[50 * salt : 50 * salt + 30], np.int32)
                outcomes = law(lambda rng: emit(model, drafter, context, rng, verifier))  # noqa: B023
                assert_target_law(outcomes, Plain(other, context), len(ALLOWED), 3)
                accepted += mean_accepted(outcomes)
            assert drafter.failures == 0
        assert accepted > 0.5

    @one_of_each
    def test_the_confidence_stop_shortens_drafts(self, files: Files, model: LlamaModel, name: str) -> None:
        lengths = []
        for unsure in (0.0, 2.0):
            model.rewind(0)
            with closing(head(model, files(name), unsure=unsure)) as drafter:
                read(model, PROMPT[:30])
                context = np.array(PROMPT[:31], np.int32)
                for sampling in (GREEDY, WARM):
                    lengths.append(len(drafter.draft(context, 4, sampling, default_rng(0)).tokens))
        assert lengths == [4, 4, 1, 1]


def emit(model: LlamaModel, drafter: Follower, context: Any, rng: Any, verifier: str) -> tuple[int, ...]:
    """One round at two drafted tokens, as indices into ALLOWED."""
    if not np.array_equal(model.cached, context[:-1]):
        model.rewind(0)
        read(model, context[:-1])
        drafter.draft(context, 2, WARM, default_rng(0))  # from now on each draft is computed in the same steps
    draft = drafter.draft(context, 2, WARM, rng)
    logits = model.decode([context[-1], *draft.tokens], rows=1 + len(draft.tokens))
    verdict = VERIFIERS[verifier](LazyRows(logits, context, draft.tokens, WARM), draft, rng)
    model.rewind(len(context) - 1)
    return tuple(ALLOWED.index(token) for token in (*draft.tokens[: verdict.accepted], verdict.token))


class Plain:
    """The target's own distribution after a prefix, token by token."""

    def __init__(self, model: LlamaModel, context: Any) -> None:
        self._model, self._context = model, context
        self._known: dict[tuple[int, ...], Distribution] = {}

    def __call__(self, prefix: tuple[int, ...]) -> Distribution:
        if prefix not in self._known:
            text = [*self._context.tolist(), *(ALLOWED[i] for i in prefix)]
            self._model.rewind(0)
            read(self._model, text[:-1])
            full = distribution(self._model.decode(text[-1:], rows=1)[0], text, WARM)
            self._known[prefix] = Distribution(None, np.array([full.prob(token) for token in ALLOWED]))
        return self._known[prefix]
