"""What every drafter keeps, whoever wrote it. Drafters are found in `localspec/spec/drafters/`: a new file is tested
without a word here if its class needs no arguments, else after a line in BUILDERS."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng

from localspec.spec import drafters
from localspec.spec.controller import PLAIN, Choice, Controller
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters import DRAFTERS, create
from localspec.spec.drafters.auto import Auto
from localspec.spec.drafters.cascade import Cascade
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.drafters.off import Off
from localspec.spec.drafters.suffix import Suffix
from localspec.spec.drafters.translated import TranslatedDrafter
from localspec.spec.length import Fixed, Length
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, LanguageModel, Token
from localspec.spec.verify import VERIFIERS
from tests.conftest import Load, Models
from tests.fakes import FakeModel, Script, never, rambling
from tests.spec.drafts import plainly
from tests.spec.loop import GREEDY, PROMPT, WARM, V, answer, quiet, text
from tests.spec.simulation import one_round
from tests.spec.words import Words

PURE = Sampling(temperature=1, top_k=0, top_p=1, min_p=0)
PENALISED = Sampling(temperature=0.8, repeat_penalty=1.3, frequency_penalty=0.2, banned=(0,))
SAMPLINGS = {"greedy": GREEDY, "warm": WARM, "pure": PURE, "penalised": PENALISED}
LETTERS = "abcdefghijkl"
TARGET, OTHER = Words(*LETTERS), Words(*LETTERS[::-1], "ab", "cd")
SCRIPT = rambling(V, seed=3)


def model() -> ModelDrafter:
    return ModelDrafter(FakeModel(SCRIPT, V), V)


def wide() -> ModelDrafter:
    return ModelDrafter(FakeModel(rambling(V + 3, seed=3), V + 3), V)


def narrow() -> ModelDrafter:
    return ModelDrafter(FakeModel(rambling(V - 2, seed=3), V - 2), V)


def translated() -> TranslatedDrafter:
    return TranslatedDrafter(FakeModel(rambling(len(OTHER), seed=3), len(OTHER)), V, TARGET, OTHER)


def settled() -> Controller:
    """Everything is as good as sure and costs nothing, so that all members get their turn."""
    controller = Controller()
    for _ in range(4):
        controller.observe(PLAIN, one_round("off", (), 0.0, 0.01))
    for name in ("lookup", "suffix", "draft"):
        for evidence in range(9) if name != "draft" else (0,):
            for _ in range(6):
                controller.observe(Choice(name, 5, evidence), one_round(name, (0,) * 5, 0.0001, 0.01))
    return controller


PAGE = Path(__file__).parents[2] / "docs" / "drafters.md"

# How each drafter is built that needs more than nothing.
BUILDERS: dict[str, Callable[[], Drafter]] = {
    "ModelDrafter": model,
    "ModelDrafter, padded": wide,
    "ModelDrafter, narrow": narrow,
    "TranslatedDrafter": translated,
    "Cascade": lambda: Cascade([Suffix(), model()]),
    "Auto": lambda: Auto([Lookup(), Suffix(), model()], settled()),
}


def classes() -> Iterator[type]:
    """The drafters that are defined in the folder."""
    for module in pkgutil.iter_modules(drafters.__path__, drafters.__name__ + "."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name and hasattr(value, "draft"):
                yield value


def of_the_page() -> Callable[[], Drafter]:
    """The example of docs/drafters.md."""
    names: dict[str, Any] = {}
    exec(PAGE.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0], names)
    found: Callable[[], Drafter] = names["Bigram"]
    return found


BUILDERS |= {c.__name__: c for c in classes() if c.__name__ not in BUILDERS}
BUILDERS["of the page"] = of_the_page()


every_drafter = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)


def propose(of: Drafter, context: Sequence[Token], limit: int, sampling: Sampling, seed: int = 0) -> Draft:
    given = np.asarray(context, np.int32)
    before = given.copy()
    given.setflags(write=False)
    draft = of.draft(given, limit, sampling, default_rng(seed))
    assert np.array_equal(given, before)
    return draft


def test_every_registered_drafter_is_here() -> None:
    assert {type(create(name)).__name__ for name in DRAFTERS} <= BUILDERS.keys()


@every_drafter
def test_it_has_a_name_and_closes(build: Callable[[], Drafter]) -> None:
    drafter = build()
    assert drafter.name
    assert drafter.name == drafter.name.lower()
    drafter.close()


contexts = st.lists(st.integers(0, V - 3), min_size=1, max_size=30)
EXAMPLES = settings(max_examples=25)


def assert_sound(draft: Draft, limit: int) -> None:
    assert len(draft.tokens) <= limit
    assert all(type(token) is int and 0 <= token < V for token in draft.tokens)
    if draft.probs is not None:
        assert len(draft.probs) == len(draft.tokens), "a row for each token"
        for token, q in zip(draft.tokens, draft.probs, strict=True):
            assert q.probs.sum() == pytest.approx(1)
            assert (q.probs >= 0).all()
            assert q.prob(token) > 0, "what was drawn could be drawn"
            assert q.probs.size == V if q.ids is None else (q.ids < V).all()


@every_drafter
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@given(data=st.data())
@EXAMPLES
def test_drafts_are_short_enough_in_the_vocabulary_and_come_with_what_they_were_drawn_from(
    build: Callable[[], Drafter], sampling: Sampling, data: Any
) -> None:
    drafter = build()
    for context in data.draw(st.lists(contexts, min_size=1, max_size=3)):
        limit = data.draw(st.sampled_from([1, 2, 5, 64]))
        assert_sound(propose(drafter, context, limit, sampling), limit)


@every_drafter
def test_all_but_one_have_something_to_say(build: Callable[[], Drafter]) -> None:
    drafter = build()
    found = propose(drafter, PROMPT * 3, 4, GREEDY)
    assert bool(found.tokens) == (drafter.name != "off")
    assert (found.source != "off") == bool(found.tokens)


@every_drafter
@pytest.mark.parametrize("sampling", [GREEDY, WARM], ids=["greedy", "warm"])
@given(edits=st.lists(st.tuples(st.integers(0, 30), contexts), min_size=1, max_size=5))
@EXAMPLES
def test_drafts_depend_on_the_context_and_the_generator_alone(
    build: Callable[[], Drafter], sampling: Sampling, edits: list[tuple[int, list[Token]]]
) -> None:
    """The context shrinks, diverges and grows: an edit, a regenerated answer, a cancelled turn, a rejection."""
    drafter, context = build(), list[Token]()
    for seed, (keep, new) in enumerate(edits):
        context = context[:keep] + new
        found = propose(drafter, context, 6, sampling, seed)
        assert plainly(found) == plainly(propose(build(), context, 6, sampling, seed))


# In the loop


def decoder(target: LanguageModel, drafter: Drafter, k: int = 5, verifier: str = "block") -> SpeculativeDecoder:
    length: Length = drafter if isinstance(drafter, Auto) else Fixed(k)
    return SpeculativeDecoder(target, drafter, length, VERIFIERS[verifier])


def greedy_text(target: Any, drafter: Drafter, prompt: Sequence[Token], tokens: int, **options: Any) -> list[Token]:
    loop = decoder(target, drafter, **options)
    loop.prefill(prompt, quiet, lambda: False)
    return text(answer(loop, prompt, GREEDY, max_tokens=tokens))


@every_drafter
@pytest.mark.parametrize("k", [1, 5, 63])
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_greedy_text_is_that_of_plain_decoding(build: Callable[[], Drafter], verifier: str, k: int) -> None:
    script: Script = rambling(V - 2, seed=7)

    def target() -> FakeModel:
        return FakeModel(lambda context: [*np.asarray(script(context)), -50.0, -50.0], V, n_batch=64)

    prompt = [i * i % (V - 2) for i in range(70)]  # longer than a batch
    plain = greedy_text(target(), Off(), prompt, 150)
    assert greedy_text(target(), build(), prompt, 150, k=k, verifier=verifier) == plain


@pytest.mark.parametrize("name", [name for name in BUILDERS if name != "Auto"])  # whose choices depend on the clock
def test_a_stopped_answer_leaves_nothing_behind(name: str) -> None:
    build = BUILDERS[name]
    loop = decoder(FakeModel(rambling(V), V), build())
    loop.prefill(PROMPT, quiet, lambda: False)
    for _ in zip(range(4), loop.generate(PROMPT, WARM, 7, never), strict=False):
        pass
    edited = [*PROMPT[:4], 8, 3]
    loop.prefill(edited, quiet, lambda: False)
    again = text(answer(loop, edited, WARM))
    fresh = decoder(FakeModel(rambling(V), V), build())
    fresh.prefill(edited, quiet, lambda: False)
    assert again == text(answer(fresh, edited, WARM))


# On llama.cpp


def llama_drafters(models: Models, load: Load) -> dict[str, Callable[[Any], Drafter]]:
    """The same by class, for a real target."""

    def beside(path: str) -> Callable[[Any], ModelDrafter]:
        return lambda target: ModelDrafter(
            load(models(path), n_ctx=1024), target.n_vocab, target.vocab.eog, unsure=0
        )

    def other(target: Any) -> TranslatedDrafter:
        draft = load(models("noise_q8"), n_ctx=1024)
        return TranslatedDrafter(draft, target.n_vocab, target.vocab, draft.vocab)

    return {
        "ModelDrafter": beside("noise_q8"),
        "ModelDrafter, another": beside("noise_other"),
        "TranslatedDrafter": other,
        "Cascade": lambda target: Cascade([Suffix(), beside("noise_other")(target)]),
        "Auto": lambda target: Auto([Lookup(), Suffix(), beside("noise_q8")(target)], Controller()),
    }


NEED_A_MODEL = ("ModelDrafter", "ModelDrafter, another", "TranslatedDrafter", "Cascade", "Auto")


@pytest.mark.parametrize("name", [*NEED_A_MODEL, *(n for n in BUILDERS if n.split(",")[0] not in NEED_A_MODEL)])
def test_greedy_text_on_llama_is_that_of_plain_decoding_across_the_border_of_a_batch(
    models: Models, load: Load, name: str
) -> None:
    """Some of the text repeats, some wanders: a penalty keeps the random model from saying one token for ever."""
    target: Any = load(models("noise_q8"), n_ctx=1024)
    phrase = default_rng(1).integers(3, 260, size=40).tolist()
    prompt = (phrase * 20)[: target.n_batch - 150]
    sampling = Sampling(temperature=0, frequency_penalty=0.5)

    def run(drafter: Drafter) -> list[Token]:
        loop = decoder(target, drafter, k=6)
        loop.prefill(prompt, quiet, lambda: False)
        return text(answer(loop, prompt, sampling, max_tokens=300))

    plain = run(Off())
    build = llama_drafters(models, load).get(name)
    assert run(build(target) if build else BUILDERS[name]()) == plain
    assert len(prompt) < target.n_batch < len(prompt) + len(plain)
