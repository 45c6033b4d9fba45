"""Real llama.cpp behind the engine: the text with drafts is the text without."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.chat.message import Message
from localspec.engine.messages import Emitted, Failed, Finished, Load, Loading, Prefill, Ready, Stop, Use
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.conftest import Models
from tests.engine.driver import Driver

PROMPTS = (
    "Explain what a hash table is.",
    "Write a Python class for a stack, then write it again with comments.",
    "List the days of the week, three times.",
    "Repeat after me: the quick brown fox jumps over the lazy dog. Repeat it five times.",
    "Tell me a short story about a lighthouse.",
)


@pytest.fixture(scope="module")
def demo(demo_model: str) -> Iterator[Driver]:
    driver = Driver(demo_model, n_ctx=2048, threads=1)
    yield driver
    driver.engine.close()


@pytest.fixture
def noise_driver(noise: str) -> Iterator[Driver]:
    driver = Driver(noise, threads=1)
    yield driver
    driver.engine.close()


def unending(driver: Driver) -> Sampling:
    """No end token can come, so that an answer has the length that the test asks for."""
    return Sampling(banned=driver.eog)


@pytest.mark.parametrize("prompt", PROMPTS)
def test_greedy_text_with_lookup_is_that_of_plain_decoding(demo: Driver, prompt: str) -> None:
    plain = demo.ask(prompt, method="off", max_tokens=200, sampling=unending(demo))
    drafted = demo.ask(prompt, method="lookup", max_tokens=200, sampling=unending(demo))
    assert len(plain.token_ids) == 200
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.accepted > 0, "nothing was drafted, so nothing was shown"


def test_greedy_text_is_the_same_when_the_method_is_switched_every_20_tokens(demo: Driver) -> None:
    prompt = PROMPTS[2]
    plain = demo.ask(prompt, method="off", max_tokens=200, sampling=unending(demo))
    made = 0

    def switch(event: object) -> None:
        nonlocal made
        if isinstance(event, Emitted):
            before, made = made, made + len(event.pieces)
            if made // 20 > before // 20:
                demo.engine.inbox.put(Use("off" if made // 20 % 2 else "lookup", 1 + made % 8))

    demo.on_event = switch
    mixed = demo.ask(prompt, method="lookup", max_tokens=200, sampling=unending(demo))
    demo.on_event = lambda event: None
    assert mixed.token_ids == plain.token_ids
    assert {done.method for done in mixed.rounds} == {"off", "lookup"}


def test_noise_model_gives_the_same_text_with_drafts(noise_driver: Driver) -> None:
    prompt = "abcabcabcabc" * 8
    plain = noise_driver.ask(prompt, method="off", max_tokens=200, sampling=unending(noise_driver))
    drafted = noise_driver.ask(prompt, method="lookup", max_tokens=200, sampling=unending(noise_driver))
    assert len(plain.token_ids) == 200
    assert drafted.token_ids == plain.token_ids
    assert drafted.stats.tested > 0


def test_text_after_a_stop_an_edit_and_a_regenerate_is_that_of_a_fresh_engine(
    demo: Driver, demo_model: str
) -> None:
    first, edited = "Name three colours.", "Name four animals."
    seen = 0

    def stop(event: object) -> None:
        nonlocal seen
        if isinstance(event, Emitted) and seen < 5:
            seen += len(event.pieces)
            if seen >= 5:
                demo.engine.inbox.put(Stop())

    demo.on_event = stop
    stopped = demo.ask(first, max_tokens=60, sampling=unending(demo))
    demo.on_event = lambda event: None
    assert stopped.finish is Finish.CANCELLED
    assert 0 < len(stopped.token_ids) < 60
    again = demo.ask(first, max_tokens=60, sampling=unending(demo))
    followed = demo.ask(first, stopped.message(), "Go on.", max_tokens=40, sampling=unending(demo))
    changed = demo.ask(edited, max_tokens=60, sampling=unending(demo))

    fresh = Driver(demo_model, n_ctx=2048, threads=1)
    try:
        assert again.token_ids == fresh.ask(first, max_tokens=60, sampling=unending(fresh)).token_ids
        assert again.token_ids[: len(stopped.token_ids)] == stopped.token_ids
        assert changed.token_ids == fresh.ask(edited, max_tokens=60, sampling=unending(fresh)).token_ids
        expected = fresh.ask(first, stopped.message(), "Go on.", max_tokens=40, sampling=unending(fresh))
        assert followed.token_ids == expected.token_ids
    finally:
        fresh.engine.close()


def test_second_turn_reads_only_what_is_new(demo: Driver) -> None:
    question = "What is the capital of France?"
    answer = demo.ask(question, max_tokens=40)
    demo.ask(question, answer.message(), "And of Spain?", max_tokens=5)
    (finished,) = demo.of(Finished)
    assert finished.reused_tokens >= answer.prompt_tokens + len(answer.token_ids) - 2
    assert finished.prompt_tokens - finished.reused_tokens < 40


def test_continued_answer_goes_on_where_it_stopped(demo: Driver) -> None:
    whole = demo.ask(PROMPTS[0], max_tokens=40, sampling=unending(demo))
    half = demo.ask(PROMPTS[0], max_tokens=20, sampling=unending(demo))
    rest = demo.ask(PROMPTS[0], max_tokens=20, sampling=unending(demo), resume=half.token_ids)
    assert half.token_ids + rest.token_ids == whole.token_ids
    assert half.text + rest.text == whole.text


def test_same_seed_gives_the_same_text_and_others_give_others(noise_driver: Driver) -> None:
    texts = [
        noise_driver.ask("hello", temperature=1.0, max_tokens=20, seed=seed).token_ids for seed in (1, 1, 2, 3)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts)) == 3


def test_figures_of_every_answer_add_up(demo: Driver) -> None:
    for temperature in (0.0, 0.9):
        for limit in (1, 2, 3, 4, 5, 77):
            answer = demo.ask(PROMPTS[3], temperature=temperature, max_tokens=limit, draft_tokens=8)
            stats = answer.stats
            assert stats.emitted == stats.accepted + stats.rounds - stats.cut == len(answer.token_ids)
            assert len(answer.token_ids) == limit or answer.finish is Finish.STOP


def test_context_full_ends_with_context(models: Models, noise: str) -> None:
    driver = Driver(noise, threads=1, n_ctx=256)
    answer = driver.ask("ab" * 20, max_tokens=1000, sampling=unending(driver))
    assert answer.finish is Finish.CONTEXT
    assert answer.prompt_tokens + len(answer.token_ids) == 256
    driver.engine.close()


def test_prompt_longer_than_the_context_is_refused_and_the_engine_lives_on(noise: str) -> None:
    driver = Driver(noise, threads=1, n_ctx=256)
    assert "context holds 256" in (driver.ask("x" * 300).error or "")
    assert driver.of(Failed)[0].exit_code == 2
    assert len(driver.ask("x", max_tokens=3).token_ids) == 3
    driver.engine.close()


def test_characters_split_over_tokens_arrive_whole(models: Models) -> None:
    driver = Driver(models("emoji"), threads=1)
    whole = driver.ask(prompt="", max_tokens=10)
    assert (whole.text, whole.finish) == ("\N{GRINNING FACE}", Finish.STOP)
    half = driver.ask(prompt="", max_tokens=2)
    assert (half.text, half.finish) == ("\N{REPLACEMENT CHARACTER}", Finish.LENGTH)
    rest = driver.ask(prompt="", max_tokens=10, resume=half.token_ids)
    assert rest.text == "\N{GRINNING FACE}"
    driver.engine.close()


def test_model_that_cannot_speculate_answers_without_drafts_and_says_so(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localspec.llama.memory.Memory.probe", lambda self, decode_two: None)
    driver = Driver(models("noise"), threads=1)
    assert any("speculation is off for this model because" in text.lower() for text in driver.notices)
    (ready,) = driver.of(Ready)
    assert ready.methods == ("off",)
    first = driver.ask("abcabc", max_tokens=20)
    assert {done.method for done in first.rounds} == {"off"}
    assert driver.ask("abcabc", max_tokens=20).token_ids == first.token_ids
    driver.engine.close()


def test_tokens_that_are_read_again_are_told(models: Models) -> None:
    """Recurrent state can't go back to the middle of a long message; the part before it need not be read again."""
    driver = Driver(models("recur"), threads=1)
    system, question = Message("system", "s" * 200), "q" * 300
    answer = driver.ask(system, question, max_tokens=3)
    driver.ask(system, question, answer.message(), question, max_tokens=3)
    edited = driver.ask(system, question, answer.message(), question[:200] + "?", max_tokens=3)
    (finished,) = driver.of(Finished)
    assert len(system.text + question) < finished.reused_tokens < edited.prompt_tokens - 200
    again, shared = re.findall(r"(\d+) of the (\d+) tokens .* read again", " ".join(driver.notices))[0]
    assert int(shared) - int(again) == finished.reused_tokens
    fresh = Driver(models("recur"), threads=1)
    expected = fresh.ask(system, question, answer.message(), question[:200] + "?", max_tokens=3)
    assert edited.token_ids == expected.token_ids
    for engine in (driver.engine, fresh.engine):
        engine.close()


def test_bad_file_fails_with_a_reason_and_a_hint(tmp_path: Path) -> None:
    driver = Driver(f"{tmp_path}/nothing.gguf")
    (failed,) = driver.of(Failed)
    assert "nothing.gguf" in failed.message
    assert failed.hint
    assert "No model is loaded" in (driver.ask("hello").error or "")


def test_stop_while_the_model_loads_cancels_the_load(noise: str) -> None:
    driver = Driver(noise, threads=1)

    def stop(event: object) -> None:
        if isinstance(event, Loading):
            driver.engine.inbox.put(Stop())

    driver.events.clear()
    driver.on_event = stop
    driver.engine.handle(Load(ModelSpec(noise, threads=1)))
    assert not driver.of(Ready)
    assert driver.of(Failed)


def test_stop_while_the_prompt_is_read_ends_without_a_token(noise: str) -> None:
    driver = Driver(noise, threads=1)

    def stop(event: object) -> None:
        if isinstance(event, Prefill):
            driver.engine.inbox.put(Stop())

    driver.on_event = stop
    answer = driver.ask("y" * 400, max_tokens=10)
    assert answer.finish is Finish.CANCELLED
    assert answer.token_ids == ()
    driver.on_event = lambda event: None
    fresh = Driver(noise, threads=1)
    assert driver.ask("y" * 400, max_tokens=10).token_ids == fresh.ask("y" * 400, max_tokens=10).token_ids
    for engine in (driver.engine, fresh.engine):
        engine.close()


def test_unknown_method_names_the_nearest(noise_driver: Driver) -> None:
    noise_driver.ask("hi", method="lokup")
    (failed,) = noise_driver.of(Failed)
    assert "lookup" in failed.hint


def test_draft_length_beyond_a_pass_is_clamped_and_said(noise_driver: Driver) -> None:
    answer = noise_driver.ask("abcabcabc" * 9, draft_tokens=500, max_tokens=100)
    assert len(answer.token_ids) <= 100
    assert any("clamped to 64" in text for text in noise_driver.notices)


def test_the_first_answer_does_not_wait_for_the_vocabulary(noise_driver: Driver) -> None:
    """Its tables take 0.2 s for 50,000 tokens; built between prompt and first token they would count as decoding."""
    loaded = noise_driver.engine.loaded
    assert loaded is not None
    assert {"pieces", "eog", "special_texts"} <= vars(loaded.target.vocab).keys()
