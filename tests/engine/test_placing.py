"""Plans at load: on machines whose memory is made up, with real files, and loads that fail for want of memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec import gguf
from localspec.engine import placing
from localspec.engine.engine import Engine
from localspec.engine.messages import Event, Failed, Load, Notice, Ready
from localspec.engine.placing import load_lower, load_target, place
from localspec.errors import ModelLoadError, UsageError
from localspec.fit.footprint import of_header
from localspec.fit.plan import GPU_RESERVE, HOST_RESERVE, Capacity, Gpu
from localspec.llama import logs
from localspec.model import ModelSpec
from tests import ggufs

MB = 1_000_000


@pytest.fixture
def target(tmp_path: Path) -> str:
    """Sixteen layers of 150 kB each."""
    return str(ggufs.noise(tmp_path / "target.gguf", layers=16))


def machine(monkeypatch: pytest.MonkeyPatch, *, gpu: int | None = None, host: int = 10_000 * MB) -> None:
    """`gpu` and `host`: free bytes beside what is kept in reserve."""
    gpus = () if gpu is None else (Gpu("CUDA0", gpu + GPU_RESERVE, gpu + 2 * GPU_RESERVE),)
    monkeypatch.setattr(placing, "capacity", lambda: Capacity(gpus, host + HOST_RESERVE))


class FakeModel:
    """Loads up to `most` layers, and remembers what was asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, most: int, reason: str = logs.NO_ROOM) -> None:
        self.asked: list[int | None] = []
        self._most, self._reason = most, reason
        monkeypatch.setattr(placing.LlamaModel, "load", self.load)

    def load(self, spec: ModelSpec, **_: Any) -> FakeModel:
        self.asked.append(spec.gpu_layers)
        if (spec.gpu_layers or 0) > self._most:
            raise ModelLoadError(spec.path, self._reason)
        return self


def load(target: str, **spec: Any) -> tuple[Load, tuple[str, ...]]:
    command = Load(ModelSpec(target, n_ctx=256, **spec), ModelSpec(target))
    return load_target(command, lambda fraction: True)[1:]


def test_what_fits_is_loaded_as_planned_without_a_word(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=100 * MB)
    model = FakeModel(monkeypatch, 99)
    command, notes = load(target)
    assert model.asked == [17] and notes == ()
    assert command.draft is not None and command.draft.gpu_layers == 17


def test_what_fits_partly_says_so(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=3 * MB)
    model = FakeModel(monkeypatch, 99)
    command, notes = load(target)
    assert 0 < (model.asked[0] or 0) < 17 and f"{model.asked[0]} of 17 layers of the target" in notes[0]
    assert command.draft is not None and command.draft.gpu_layers == 0


def test_a_load_that_fails_for_memory_goes_on_with_fewer_layers(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, gpu=100 * MB)
    model = FakeModel(monkeypatch, 8)
    command, notes = load(target)
    assert model.asked == [17, 12, 8]
    assert "8 of 17 layers are on the GPU instead of 17" in notes[0] and len(notes) == 1
    assert command.draft is not None and command.draft.gpu_layers == 0


def test_it_goes_down_to_none_and_then_gives_up(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=100 * MB)
    model = FakeModel(monkeypatch, -1)
    with pytest.raises(ModelLoadError, match="not enough memory"):
        load(target)
    assert model.asked == [17, 12, 8, 4, 0]


def test_another_failure_is_not_tried_again(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=100 * MB)
    model = FakeModel(monkeypatch, 0, "its tensor 'x' is missing")
    with pytest.raises(ModelLoadError, match="missing"):
        load(target)
    assert model.asked == [17]


@pytest.mark.parametrize("layers", [0, 3, -1])
def test_who_names_the_layers_has_decided(target: str, monkeypatch: pytest.MonkeyPatch, layers: int) -> None:
    machine(monkeypatch, gpu=0, host=1)
    model = FakeModel(monkeypatch, 99)
    assert load(target, gpu_layers=layers)[1] == ()
    assert model.asked == [layers]


def test_layers_of_the_draft_that_were_named_are_kept(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine(monkeypatch, gpu=100 * MB)
    FakeModel(monkeypatch, 99)
    command = Load(ModelSpec(target, n_ctx=256), ModelSpec(target, gpu_layers=2))
    assert load_target(command, lambda fraction: True)[1] == command


def test_a_draft_that_has_no_room_beside_the_target_is_left_out(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = place(Load(ModelSpec(target, n_ctx=256))).plan.host_bytes
    machine(monkeypatch, host=alone - HOST_RESERVE + MB)
    FakeModel(monkeypatch, 99)
    command, notes = load(target)
    assert command.draft is None and notes[0].startswith("The draft is left out: with it, it needs")


def test_a_draft_that_cannot_be_read_takes_nothing(target: str, tmp_path: Path) -> None:
    found = place(Load(ModelSpec(target), ModelSpec(str(tmp_path / "none.gguf"))))
    assert found.draft is None and found.command.draft is not None


def test_without_a_gpu_host_memory_is_checked_before_anything_is_loaded(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = ModelSpec(target, n_ctx=2048)
    needed = place(Load(spec)).plan.host_bytes
    machine(monkeypatch, host=needed - HOST_RESERVE - MB)
    model = FakeModel(monkeypatch, 99)
    with pytest.raises(ModelLoadError, match=r"it needs .* of host memory, and .* are free") as caught:
        load_target(Load(spec), lambda fraction: True)
    assert model.asked == [] and caught.value.hint.startswith("It fits with --n-ctx 1024.")
    machine(monkeypatch, host=1)
    with pytest.raises(ModelLoadError) as caught:
        load_target(Load(spec), lambda fraction: True)
    assert "`localspec models`" in caught.value.hint and "--gpu-layers" in caught.value.hint


def test_a_setting_that_cannot_be_is_said_before_the_memory_that_it_would_take(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine(monkeypatch, host=1)
    with pytest.raises(UsageError, match="trained for 2,048"):
        load_target(Load(ModelSpec(target, n_ctx=10**9)), lambda fraction: True)


def test_the_engine_lives_on_and_says_it(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[Event] = []
    engine = Engine(events.append)
    machine(monkeypatch, host=1)
    engine.handle(Load(ModelSpec(target, n_ctx=256, threads=1)))
    failed = events[-1]
    assert isinstance(failed, Failed) and "host memory" in failed.message and failed.turn is None
    machine(monkeypatch)
    engine.handle(Load(ModelSpec(target, n_ctx=256, threads=1)))
    assert any(isinstance(event, Ready) for event in events)
    assert not [event for event in events if isinstance(event, Notice)]
    engine.close()


def test_the_plan_is_what_the_header_says(target: str) -> None:
    found = place(Load(ModelSpec(target, n_ctx=256)))
    assert found.footprint == of_header(gguf.read(target)) and found.plan.n_ctx == 256


def test_a_lower_number_of_layers_is_tried_only_when_memory_was_short() -> None:
    asked = []

    def refuse(spec: ModelSpec) -> Any:
        asked.append(spec.gpu_layers)
        raise ModelLoadError("x", logs.NO_ROOM)

    with pytest.raises(ModelLoadError):
        load_lower(refuse, replace(ModelSpec("x"), n_ctx=1), (5, 2, 0))
    assert asked == [5, 2, 0]
