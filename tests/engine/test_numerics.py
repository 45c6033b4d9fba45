"""Numerics of a loaded model: kept between loads, shown in events, obeyed when they are strict."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from localspec import config
from localspec.engine import numerics as room
from localspec.engine.engine import Engine
from localspec.engine.messages import Emitted, Event, Finished, Generate, Load, Notice, Ready
from localspec.llama import workers
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.numerics import Numerics, probe
from localspec.spec.settings import Sampling
from tests.conftest import Models

Loading = Callable[..., list[Event]]
LOOP = "abcabcabcabcabcabc"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "cache_dir", lambda: tmp_path / "cache")
    return tmp_path / "cache" / "numerics"


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each measurement so far was a deep one."""
    done: list[bool] = []

    def counted(model: Any, *, deep: bool) -> Numerics:
        done.append(deep)
        return probe(model, deep=deep)

    monkeypatch.setattr(room, "probe", counted)
    return done


@pytest.fixture
def run(models: Models) -> Iterator[Loading]:
    """Load a model, ask it something that repeats itself; the events."""
    engines = []

    def load(name: str = "noise_q8", mode: str = "fast", draft_tokens: int = 8, **options: Any) -> list[Event]:
        events: list[Event] = []
        engines.append(engine := Engine(events.append))
        spec = ModelSpec(models(name), **{"threads": 1, "n_ctx": 256} | options)
        engine.handle(Load(spec, numerics=mode))
        engine.handle(
            Generate(
                1,
                prompt=LOOP,
                method="lookup",
                draft_tokens=draft_tokens,
                sampling=Sampling(temperature=0),
                max_tokens=40,
            )
        )
        return events

    yield load
    for engine in engines:
        engine.close()


def of(kind: type[Any], events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def test_ready_and_every_answer_carry_what_was_measured(run: Loading) -> None:
    events = run()
    (ready,), (finished,) = of(Ready, events), of(Finished, events)
    assert ready.target.numerics == Numerics(9, 0.0, (2, 5, 9), 16)
    assert finished.environment.models[0].numerics == ready.target.numerics
    assert finished.environment.numerics == "fast"


def test_it_is_measured_once(run: Loading, probes: list[bool]) -> None:
    first, second = run(), run()
    assert probes == [False]
    assert of(Ready, first)[0].target.numerics == of(Ready, second)[0].target.numerics


def test_a_deep_measurement_serves_for_both(run: Loading, probes: list[bool]) -> None:
    run(mode="strict")
    run()
    assert probes == [True]
    run(mode="strict")
    assert probes == [True]


def test_a_quick_one_is_not_enough_for_strict(run: Loading, probes: list[bool]) -> None:
    run()
    run(mode="strict")
    assert probes == [False, True]


@pytest.mark.parametrize("change", [{"flash_attn": "off"}, {"cache_type_k": "f16"}, {"n_ctx": 512}])
def test_other_settings_are_measured_anew(run: Loading, probes: list[bool], change: dict[str, Any]) -> None:
    run()
    run(**change)
    assert len(probes) == 2


def test_another_model_is_measured_anew(run: Loading, probes: list[bool]) -> None:
    run("noise_q8")
    run("noise_other")
    assert len(probes) == 2


@pytest.mark.parametrize("content", ["", "{", "[]", '{"widest": "many"}', '{"widest": 3}'])
def test_a_damaged_file_is_measured_anew_and_replaced(
    run: Loading, probes: list[bool], cache: Path, content: str
) -> None:
    run()
    (kept,) = cache.rglob("*.json")
    kept.write_text(content)
    run()
    assert len(probes) == 2
    assert json.loads(kept.read_text())["widest"] == 9


def test_a_folder_that_can_not_be_written_costs_nothing_but_time(
    run: Loading, probes: list[bool], cache: Path
) -> None:
    cache.parent.parent.mkdir(exist_ok=True)
    cache.parent.write_text("a file where the folder should be")
    assert of(Ready, run())[0].target.numerics is not None
    run()
    assert len(probes) == 2


def measured(monkeypatch: pytest.MonkeyPatch, widest: int, noise: float = 0.3) -> None:
    monkeypatch.setattr(room, "probe", lambda model, *, deep: Numerics(widest, noise, (2, 5), 16))


def longest(events: list[Event]) -> int:
    return max(len(done.drafted) for emitted in of(Emitted, events) for done in emitted.rounds)


@pytest.mark.parametrize("widest", [2, 4, 5])
def test_strict_drafts_are_one_shorter_than_the_widest_batch(
    run: Loading, monkeypatch: pytest.MonkeyPatch, widest: int
) -> None:
    measured(monkeypatch, widest)
    events = run(mode="strict")
    assert longest(events) == widest - 1
    notice = of(Notice, events)[0].text
    assert notice.startswith("--numerics strict") and f"at most {widest - 1} tokens" in notice
    assert of(Finished, events)[0].environment.numerics == "strict"


def test_strict_without_any_such_batch_drafts_nothing_and_says_so(
    run: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured(monkeypatch, 1)
    events = run(mode="strict")
    assert longest(events) == 0
    assert "drafts are off" in of(Notice, events)[0].text
    assert "q8_0" in of(Notice, events)[0].text


def test_strict_has_nothing_to_say_where_it_costs_nothing(run: Loading) -> None:
    events = run(mode="strict")
    assert of(Notice, events) == []
    assert longest(events) == 8


def test_fast_is_not_limited(run: Loading, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(monkeypatch, 1)
    events = run()
    assert longest(events) == 8
    assert of(Notice, events) == []


def test_strict_text_is_that_of_plain_decoding(run: Loading) -> None:
    def text(events: list[Event]) -> list[int]:
        return [token for emitted in of(Emitted, events) for done in emitted.rounds for token in done.emitted]

    assert text(run(mode="strict")) == text(run(draft_tokens=0))


def test_what_was_measured_can_be_read_by_people(noise: str, cache: Path) -> None:
    assert room.known() == []
    with closing(LlamaModel.load(ModelSpec(noise, n_ctx=256, threads=1))) as model:
        measured = room.numerics(model, deep=False)
    (cache / "quick" / "damaged.json").write_text("[]", "utf-8")
    (found,) = room.known()
    assert found["model"] == "noise" and found["settings"].startswith("flash attention, cache ")
    assert found["result"] == str(measured)


def test_over_workers_nothing_is_kept_since_an_address_says_not_how_far_it_is(
    run: Loading, probes: list[bool], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "are_used", lambda: True)
    run()
    run()
    assert len(probes) == 2
    assert not cache.exists() and not (cache.parent / "costs").exists()
