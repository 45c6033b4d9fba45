from __future__ import annotations

import pytest
from numpy.random import default_rng

from localspec.spec.drafters.cascade import Cascade
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.drafters.off import Off
from localspec.spec.types import Draft, Round
from tests.fakes import FakeModel, ScriptedDrafter, rambling
from tests.spec.drafts import plainly
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, ready, text


def model() -> ModelDrafter:
    return ModelDrafter(FakeModel(rambling(V, seed=4), V), V, unsure=0.0)


def test_the_first_that_proposes_anything_drafts() -> None:
    silent, talking = ScriptedDrafter(lambda context: ()), ScriptedDrafter(lambda context: (7, 8))
    never_asked = ScriptedDrafter(lambda context: pytest.fail("asked in vain"))
    found = Cascade([silent, talking, never_asked]).draft(PROMPT, 4, GREEDY, default_rng(0))
    assert (found.tokens, found.source) == ((7, 8), "scripted")


def test_where_all_are_silent_nothing_is_drafted() -> None:
    silent = ScriptedDrafter(lambda context: ())
    assert Cascade([silent, Off()]).draft(PROMPT, 4, GREEDY, default_rng(0)) == Draft()


def rounds(verifier: str = "block") -> list[Round]:
    decoder = ready(FakeModel(rambling(V), V), Cascade([Lookup(), model()]), verifier=verifier)
    return answer(decoder, max_tokens=200)


@pytest.mark.parametrize("verifier", ["block", "token"])
def test_each_round_says_who_drafted_and_the_text_is_that_of_plain_decoding(verifier: str) -> None:
    found = rounds(verifier)
    assert {r.source for r in found} == {"lookup", "draft"}
    assert {r.method for r in found} == {"cascade"}
    assert text(found) == text(answer(ready(FakeModel(rambling(V), V), Off()), max_tokens=200))


def test_members_stay_in_step_whoever_won() -> None:
    """After each round, the model drafts what a fresh one would draft."""
    inner, context = model(), list(PROMPT)
    silent = False
    cascade = Cascade([ScriptedDrafter(lambda _: () if silent else (3, 4)), inner])
    for done in rounds():
        silent = done.source == "draft"
        cascade.draft(context, 3, WARM, default_rng(1))
        context += done.emitted
        found, fresh = (d.draft(context, 3, WARM, default_rng(1)) for d in (inner, model()))
        assert plainly(found) == plainly(fresh)
