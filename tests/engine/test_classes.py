"""Every class of cache under the real loop: text with drafts is the text without, in every turn of a chat."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import Generator, default_rng

from localspec.chat.message import Message
from localspec.engine.messages import Emitted, Event, Finished, Prefill, Stop
from localspec.llama import load as loading
from localspec.llama.checkpoints import Ring
from localspec.llama.drafters.mtp import Mtp
from localspec.llama.model import LlamaModel
from localspec.llama.native import lc
from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.drafters.off import Off
from localspec.spec.length import Fixed
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Finish, LanguageModel, Round, Token, Tokens
from tests import ggufs_mtp
from tests.conftest import Load, Models
from tests.engine.driver import Driver
from tests.fakes import FakeModel, ScriptedDrafter, never, rambling
from tests.llama.drafting import read

# Tiny random models repeat one token for ever; with a penalty their text wanders and hangs on the whole state.
GREEDY = Sampling(temperature=0, frequency_penalty=0.6, penalty_last_n=64)
PROMPT = default_rng(3).integers(3, 40, size=400).tolist()  # with 300 tokens of answer it passes the batch of 512


@dataclass(frozen=True)
class Kind:
    model: str
    rollback: str
    swa_full: bool = True
    snapshots: int | None = None
    spec: dict[str, Any] = field(default_factory=dict)


F32 = {"cache_type_k": "f32", "cache_type_v": "f32"}
KINDS = {
    "plain": Kind("noise_q8", "PART"),
    "recurrent": Kind("recur", "FULL"),
    "hybrid": Kind("hybrid", "RS", spec=F32),
    "hybrid without snapshots": Kind("hybrid", "FULL", snapshots=0, spec=F32),
    "window": Kind("window_q8", "SWA", swa_full=False),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kind:
    kind = KINDS[request.param]
    if kind.snapshots is not None:
        monkeypatch.setattr(loading, "SNAPSHOTS", kind.snapshots)
    if not kind.swa_full:
        real = LlamaModel.load
        monkeypatch.setattr(LlamaModel, "load", lambda *a, **k: real(*a, **(k | {"swa_full": False})))
    return kind


class Forced:
    """Knows the text. Of each draft it gets as many tokens right as `accept` says, and the next one wrong."""

    name: ClassVar[str] = "forced"

    def __init__(self, text: list[Token], accept: Callable[[int, int], int]) -> None:
        self._text, self._accept, self._round = text, accept, 0

    def draft(self, context: Tokens, limit: int, sampling: Sampling, rng: Generator) -> Draft:
        self._round += 1
        right = self._text[len(context) : len(context) + limit]
        accepted = self._accept(self._round, len(right))
        wrong = [(token + 1) % 200 for token in right[accepted:]]
        return Draft((*right[:accepted], *wrong), source=self.name)

    def close(self) -> None:
        pass


PATTERNS: dict[str, Callable[[int, int], int]] = {
    "none": lambda round, k: 0,
    "some": lambda round, k: min(2, k),
    "all": lambda round, k: k,
    "alternating": lambda round, k: k * (round % 2),
    "random": lambda round, k: int(default_rng(round).integers(0, k + 1)),
}


def begun(model: LanguageModel, drafter: Drafter, k: int, prompt: list[Token]) -> SpeculativeDecoder:
    decoder = SpeculativeDecoder(model, drafter, Fixed(k))
    decoder.prefill(prompt, lambda done, total: None, lambda: False)
    return decoder


def answer(model: LlamaModel, drafter: Drafter, k: int, prompt: list[Token] = PROMPT, n: int = 300) -> list[Round]:
    decoder = begun(model, drafter, k, prompt)
    rounds = list(decoder.generate(prompt, GREEDY, 1, never, max_tokens=n))
    assert decoder.reread == 0, "the cache was lost"
    return rounds


def text(rounds: list[Round]) -> list[Token]:
    return [token for done in rounds for token in done.emitted]


def test_greedy_text_does_not_depend_on_what_is_drafted_or_accepted(kind: Kind, models: Models, load: Load) -> None:
    """One model for all, so that every run also begins in the cache that the last one left."""
    model = load(models(kind.model), n_ctx=1024, **kind.spec)
    assert model.rollback == kind.rollback
    plain = text(answer(model, Off(), 0))
    assert len(plain) == 300 and len(set(plain)) > 20
    for name, accept in PATTERNS.items():
        for k in (4, 12):  # 12 is more than the snapshots of recurrent state
            rounds = answer(model, Forced([*PROMPT, *plain], accept), k)
            assert text(rounds) == plain, (name, k)
            expected = [accept(i, len(done.drafted)) for i, done in enumerate(rounds, 1) if done.drafted]
            assert [done.accepted for done in rounds if done.drafted] == expected
    repeated = [*PROMPT[:100], *PROMPT[:100]]
    again = text(answer(model, Off(), 0, repeated, 100))
    rounds = answer(model, Lookup(), 8, repeated, 100)
    assert text(rounds) == again
    assert any(done.drafted for done in rounds)


@pytest.mark.parametrize("accepted", ["all", "some"])
def test_a_draft_model_of_the_class_stays_in_step_and_never_reads_the_text_again(
    kind: Kind, models: Models, load: Load, monkeypatch: pytest.MonkeyPatch, accepted: str
) -> None:
    target, draft = (load(models(kind.model), n_ctx=1024, **kind.spec) for _ in range(2))
    plain, read_by_draft, real = text(answer(target, Off(), 0)), list[int](), lc.llama_decode

    def decode(context: Any, batch: Any) -> int:
        read_by_draft.extend([batch.n_tokens] * (context == draft._context))
        return int(real(context, batch))

    monkeypatch.setattr(lc, "llama_decode", decode)
    drafter, forced = ModelDrafter(draft, target.n_vocab), Forced([*PROMPT, *plain], PATTERNS[accepted])

    class Both(Forced):
        def draft(self, *asked: Any) -> Draft:
            own = drafter.draft(*asked)
            return own if accepted == "all" else forced.draft(*asked)

    rounds = answer(target, Both(plain, PATTERNS[accepted]), 4)
    assert text(rounds) == plain
    assert accepted == "some" or all(done.accepted == len(done.drafted) for done in rounds)
    assert sum(read_by_draft) < len(PROMPT) + 4 * len(rounds) + len(plain)


@pytest.mark.parametrize("snapshots", [0, 8])
def test_prediction_layers_on_a_state_that_steps_back(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch, snapshots: int
) -> None:
    """Whether rejected tokens are undone or accepted ones read again, the layers hear of each token once."""
    monkeypatch.setattr(loading, "SNAPSHOTS", snapshots)
    path = str(ggufs_mtp.qwen35(tmp_path / "mtp.gguf"))
    model, other = (load(path, n_ctx=1024, mtp=True, **F32) for _ in range(2))
    plain = text(answer(other, Off(), 0))
    drafter = Mtp(model, unsure=0.0)
    rounds = answer(model, drafter, 12)
    assert text(rounds) == plain and drafter.failures == 0
    drafts = [done.drafted for done in rounds[-100:-20]]
    assert sum(map(len, drafts)) > 800
    context = [*PROMPT, *plain[:200]]
    answer(model, Forced([*PROMPT, *plain], PATTERNS["random"]), 12, n=200)
    other.rewind(0)
    fresh = Mtp(other, unsure=0.0)
    read(other, context[:-1])
    first, second = (
        d.draft(np.array(context, np.int32), 4, GREEDY, default_rng(0)).tokens for d in (drafter, fresh)
    )
    assert len(first) == 4 and first == second


def test_a_cache_that_loses_its_text_costs_time_and_nothing_else() -> None:
    script, prompt = rambling(12), [1, 2, 3, 4, 1, 2, 3]
    plain, drafter = FakeModel(script, 12), ScriptedDrafter(lambda context: context[-3:])
    losing = FakeModel(script, 12, rewinds=False)
    expected = text(list(begun(plain, Off(), 0, prompt).generate(prompt, GREEDY, 1, never, max_tokens=100)))
    decoder = begun(losing, drafter, 3, prompt)
    rounds = list(decoder.generate(prompt, GREEDY, 1, never, max_tokens=100))
    assert text(rounds) == expected
    assert any(0 < len(done.drafted) != done.accepted for done in rounds)
    assert decoder.reread > 100


def test_a_lost_cache_is_told(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, prompt = Driver(models("recur"), threads=1), "abcabcabc" * 20
    options: dict[str, Any] = {"sampling": Sampling(banned=driver.eog, frequency_penalty=0.6), "max_tokens": 60}
    plain = driver.ask(prompt, method="off", **options)
    monkeypatch.setattr(lc, "llama_state_seq_set_data_ext", lambda *_: 0)
    drafted = driver.ask(prompt, **options)
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.tested > drafted.stats.accepted
    assert any("cache was lost" in notice for notice in driver.notices)
    driver.engine.close()


@pytest.fixture
def open_driver(kind: Kind, models: Models) -> Iterator[Callable[[], Driver]]:
    opened: list[Driver] = []

    def open_one() -> Driver:
        opened.append(Driver(models(kind.model), threads=1, n_ctx=2048, **kind.spec))
        return opened[-1]

    yield open_one
    for driver in opened:
        driver.engine.close()


def stop_at(driver: Driver, when: Callable[[Event], bool]) -> None:
    """Stop the next answer at the first event of this kind."""

    def stop(event: Event) -> None:
        if when(event):
            driver.engine.inbox.put(Stop())
            driver.on_event = lambda event: None

    driver.on_event = stop


def test_three_turns_an_edit_and_two_stops_give_the_text_of_a_fresh_engine(
    open_driver: Callable[[], Driver],
) -> None:
    chat = open_driver()
    unending = Sampling(banned=chat.eog, frequency_penalty=0.6)
    options: dict[str, Any] = {"sampling": unending, "max_tokens": 30, "draft_tokens": 12}
    first, second, third = "abcabcabc" * 9, "defdefdef" * 20, "ghighi" * 9

    def expect(*messages: Message | str) -> tuple[int, ...]:
        """What a fresh engine says without drafts."""
        return open_driver().ask(*messages, method="off", **options).token_ids

    one = chat.ask(first, **options)
    assert one.token_ids == expect(first)
    stop_at(chat, lambda event: isinstance(event, Emitted) and len(event.rounds) > 0)
    stopped = chat.ask(first, one.message(), second, **options)
    assert stopped.finish is Finish.CANCELLED
    two = chat.ask(first, one.message(), second, **options)
    assert two.token_ids == expect(first, one.message(), second)
    assert two.token_ids[: len(stopped.token_ids)] == stopped.token_ids
    stop_at(chat, lambda event: isinstance(event, Prefill))
    long = "jklm" * 150
    assert chat.ask(first, one.message(), second, two.message(), long, **options).token_ids == ()
    three = chat.ask(first, one.message(), second, two.message(), third, **options)
    assert three.token_ids == expect(first, one.message(), second, two.message(), third)
    assert chat.of(Finished)[0].reused_tokens > len(first + second)
    again = chat.ask(first, one.message(), second, two.message(), third, **options)
    assert again.token_ids == three.token_ids
    edited = chat.ask(first, one.message(), second[:100], **options)
    assert edited.token_ids == expect(first, one.message(), second[:100])
    assert chat.of(Finished)[0].reused_tokens > len(first)


def test_two_hundred_turns_do_not_grow_the_memory(
    models: Models, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is kept of the turns is bounded by bytes, and nothing is forgotten outside."""
    budget = 100_000
    monkeypatch.setattr("localspec.llama.memory.Ring", lambda: Ring(budget))
    model = load(models("hybrid"), n_ctx=2048, **F32)
    rng = default_rng(1)
    history: list[Token] = []
    sizes = []
    for turn in range(200):
        if len(history) > 1500:
            history = history[: int(rng.integers(0, 400))]
        history += rng.integers(3, 40, size=40).tolist()
        answered = text(answer(model, Lookup(), 12, history, 8))
        history += answered
        if turn % 3 == 0:
            history = history[: -int(rng.integers(1, 30))]
        if turn % 20 == 19:
            sizes.append(resident())
        assert model._memory._ring.bytes <= budget
    assert max(sizes[5:]) - max(sizes[1:5]) < 500_000


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
