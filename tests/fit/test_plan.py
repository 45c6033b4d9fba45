"""The memory plan on machines that are not here."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.fit.footprint import Footprint, Layer, of_figures
from localspec.fit.plan import GPU_RESERVE, HOST_RESERVE, Capacity, Gpu, Plan, plan, remedy, smaller
from localspec.model import ModelSpec

GB = 1_000_000_000
SPEC = ModelSpec("x.gguf", n_ctx=4096)
# 4 GB in 20 layers; the cache takes 1,024 elements per layer and token, so 168 MB in F16 at 4,096 tokens.
BIG = Footprint((Layer(200_000_000, 512, 512),) * 20, embedding=100_000_000, output=100_000_000, trained=32_768)
SMALL = Footprint((Layer(20_000_000, 64, 64),) * 10, embedding=10_000_000, output=10_000_000, trained=32_768)


def machine(*free: float, host: float = 32, shared: bool = False) -> Capacity:
    """GPUs with so many GB free."""
    gpus = tuple(Gpu(f"CUDA{i}", int(gb * GB), int(gb * GB) + GB, shared) for i, gb in enumerate(free))
    return Capacity(gpus, int(host * GB))


def layers(found: Plan) -> tuple[str, int, int]:
    return found.verdict, found.target_layers, found.draft_layers


def test_with_room_for_both_everything_goes_to_the_gpu() -> None:
    found = plan(machine(8), BIG, SPEC, SMALL)
    assert layers(found) == ("gpu", 21, 11)
    assert found.device_bytes > BIG.weights - BIG.embedding + SMALL.weights - SMALL.embedding
    assert found.host_bytes == BIG.embedding + SMALL.embedding + HOST_RESERVE


def test_the_target_is_placed_first_then_the_draft_in_what_is_left() -> None:
    alone = plan(machine(32), BIG, SPEC).device_bytes
    found = plan(machine((alone + GPU_RESERVE + 130_000_000) / GB), BIG, SPEC, SMALL)
    assert found.verdict == "partly" and found.target_layers == 21 and 0 < found.draft_layers < 11
    found = plan(machine((alone + GPU_RESERVE) / GB), BIG, SPEC, SMALL)
    assert layers(found) == ("partly", 21, 0)


def test_a_target_that_does_not_fit_gives_its_last_layers() -> None:
    found = plan(machine(3), BIG, SPEC)
    assert found.verdict == "partly" and 0 < found.target_layers < 21
    assert found.device_bytes <= 3 * GB - GPU_RESERVE
    more = plan(machine(3), BIG, replace(SPEC, gpu_layers=found.target_layers + 1))
    assert more.device_bytes > 3 * GB - GPU_RESERVE
    assert f"{found.target_layers} of 21 layers of the target" in found.reason and "CUDA0" in found.reason


def test_more_memory_never_means_fewer_layers() -> None:
    found = [plan(machine(gb / 4), BIG, SPEC, SMALL) for gb in range(2, 33)]
    counts = [each.target_layers + each.draft_layers for each in found]
    assert counts == sorted(counts) and counts[0] == 0 and counts[-1] == 32


def test_two_gpus_hold_what_neither_could_alone() -> None:
    assert plan(machine(3.5), BIG, SPEC).verdict == "partly"
    found = plan(machine(3.5, 3.5), BIG, SPEC)
    assert layers(found) == ("gpu", 21, 0) and "CUDA0 and CUDA1" in found.reason


def test_two_gpus_need_room_for_the_layer_that_fits_on_neither() -> None:
    whole = plan(machine(8), BIG, SPEC).device_bytes
    assert plan(machine((whole + GPU_RESERVE) / GB), BIG, SPEC).target_layers == 21
    half = (whole / 2 + GPU_RESERVE) / GB
    assert plan(machine(half, half), BIG, SPEC).target_layers == 20


def test_each_gpu_keeps_its_reserve() -> None:
    one = plan(machine(3), BIG, SPEC).target_layers
    assert plan(machine(1.5, 1.5), BIG, SPEC).target_layers < one
    assert plan(machine(3, GPU_RESERVE / 2 / GB), BIG, SPEC).target_layers <= one


def test_without_a_gpu_host_memory_decides() -> None:
    found = plan(machine(host=8), BIG, SPEC, SMALL)
    assert layers(found) == ("cpu", 0, 0) and found.device_bytes == 0
    assert found.host_bytes > BIG.weights - BIG.output and "8.0 GB free" in found.reason
    assert plan(machine(host=4), BIG, SPEC).verdict == "too large"


def test_a_gpu_that_is_too_small_for_a_single_layer_is_left_alone() -> None:
    assert layers(plan(machine(0.7), BIG, SPEC, SMALL)) == ("cpu", 0, 0)


def test_unified_memory_is_counted_once() -> None:
    assert plan(machine(12, host=12), BIG, SPEC).verdict == "gpu"
    apple = machine(12, host=4, shared=True)
    assert plan(apple, BIG, SPEC).verdict == "too large"
    assert plan(machine(12, host=12, shared=True), BIG, SPEC).verdict == "gpu"


def test_what_lies_in_host_memory_must_fit_there_beside_a_gpu_too() -> None:
    found = plan(machine(2, host=1), BIG, SPEC)
    assert found.verdict == "too large" and "host memory" in found.reason


def test_unknown_host_memory_is_no_reason_to_refuse() -> None:
    assert plan(Capacity(), BIG, SPEC).verdict == "cpu"


@pytest.mark.parametrize(("asked", "got"), [(0, 0), (5, 5), (-1, 21), (99, 21)])
def test_what_the_user_asks_for_is_kept(asked: int, got: int) -> None:
    assert plan(machine(1), BIG, replace(SPEC, gpu_layers=asked)).target_layers == got


def test_a_longer_context_takes_more_and_a_packed_cache_less() -> None:
    short, long = (plan(machine(32), BIG, replace(SPEC, n_ctx=n)).device_bytes for n in (4096, 8192))
    packed = plan(
        machine(32), BIG, replace(SPEC, n_ctx=8192, cache_type_k="q8_0", cache_type_v="q8_0")
    ).device_bytes
    assert packed < long and long - short >= 4096 * 20 * 1024 * 2


def test_the_cache_is_f16_on_a_gpu_and_q8_0_on_a_processor() -> None:
    assert plan(machine(32), BIG, SPEC).cache == "f16/f16"
    assert plan(machine(), BIG, SPEC).cache == "q8_0/q8_0"
    assert plan(machine(), replace(BIG, packable=False), SPEC).cache == "f16/f16"
    assert plan(machine(), BIG, replace(SPEC, flash_attn="off")).cache == "f16/f16"
    assert plan(machine(), BIG, replace(SPEC, cache_type_k="q4_0")).cache == "q4_0/q4_0"


def test_the_context_is_what_was_asked_for_or_8192_or_less_where_the_model_knows_less() -> None:
    assert plan(machine(), BIG, ModelSpec("x")).n_ctx == 8192
    assert plan(machine(), replace(BIG, trained=2048), ModelSpec("x")).n_ctx == 2048
    assert plan(machine(), replace(BIG, trained=0), ModelSpec("x")).n_ctx == 8192


def test_the_draft_may_have_a_context_and_layers_of_its_own() -> None:
    own = plan(machine(32), BIG, SPEC, SMALL, ModelSpec("d", n_ctx=512))
    assert own.device_bytes < plan(machine(32), BIG, SPEC, SMALL).device_bytes
    assert layers(plan(machine(32), BIG, SPEC, SMALL, ModelSpec("d", gpu_layers=0))) == ("partly", 21, 0)


def test_a_catalogue_speaks_of_parts_not_of_layers() -> None:
    found = plan(machine(3), of_figures(4 * GB, 40_960), SPEC)
    assert "about" in found.reason and "% of the target" in found.reason


@pytest.mark.parametrize(("layers", "tried"), [(21, [15, 10, 5, 0]), (4, [3, 2, 1, 0]), (1, [0]), (0, [])])
def test_after_a_failed_load_fewer_layers_are_tried_down_to_none(layers: int, tried: list[int]) -> None:
    assert list(smaller(layers)) == tried


def test_what_would_fit_is_said() -> None:
    spec = replace(SPEC, n_ctx=32_768)
    needed = plan(machine(), BIG, spec).host_bytes / GB
    assert remedy(machine(host=needed - 0.3), BIG, spec) == "It fits with --n-ctx 16384."
    wide = replace(spec, cache_type_k="f16", cache_type_v="f16", flash_attn="on")
    needed = plan(machine(), BIG, wide).host_bytes / GB
    assert remedy(machine(host=needed - 0.1), BIG, wide).startswith("It fits with --n-ctx 16384")
    stubborn = replace(wide, n_ctx=512)
    needed = plan(machine(), BIG, stubborn).host_bytes / GB
    assert (
        remedy(machine(host=needed - 0.001), BIG, stubborn)
        == "It fits with --cache-type-k q8_0 --cache-type-v q8_0."
    )
    assert remedy(machine(host=1), BIG, spec) == ""


def test_the_remedy_really_fits() -> None:
    spec = replace(SPEC, n_ctx=32_768)
    for host in range(43, 80):
        here = machine(host=host / 10)
        if plan(here, BIG, spec).verdict == "too large" and (said := remedy(here, BIG, spec)):
            n_ctx = int(said.split("--n-ctx ")[1].split()[0].rstrip("."))
            assert plan(here, BIG, replace(spec, n_ctx=n_ctx)).verdict == "cpu"
