"""What a model takes: compared with what llama.cpp says it allocated, and computed by hand for shapes it knows."""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from localspec import gguf
from localspec.fit.footprint import SLICES, Footprint, of_figures, of_header, of_outline
from localspec.gguf import Header
from tests import ggufs
from tests.conftest import Load, Models

MIB = 1 << 20


def header(arch: str = "llama", **keys: Any) -> Header:
    """Four layers of two heads of 64, no tensors."""
    shape = {"block_count": 4, "embedding_length": 128, "attention.head_count": 2, "context_length": 4096}
    named = {f"{arch}.{key.replace('__', '.')}": value for key, value in (shape | keys).items()}
    return Header("x.gguf", 3, MappingProxyType({"general.architecture": arch, **named}), (), 0, 0, None)


def caches(footprint: Footprint) -> list[tuple[int, int]]:
    return [(layer.k, layer.v) for layer in footprint.layers]


def allocated(log: str, what: str) -> float:
    """MiB, summed over the buffers of that kind."""
    return sum(float(found) for found in re.findall(rf"{what} buffer size =\s+([\d.]+) MiB", log))


@pytest.mark.parametrize("name", ["noise", "window", "hybrid", "recur", "odd_heads"])
def test_llama_cpp_allocates_what_was_counted(name: str, models: Models, load: Load) -> None:
    from localspec.llama import logs

    place = logs.mark()
    model = load(models(name), n_ctx=2048)
    log = "\n".join(line.text for line in logs.since(place))
    footprint, info = of_header(gguf.read(models(name))), model.info
    types = (info.cache_type_k, info.cache_type_v)
    count = len(footprint.layers)
    kept = sum(footprint.layer(i, 2048, *types) - footprint.layers[i].weights for i in range(count))
    assert kept / MIB == pytest.approx(allocated(log, "KV") + allocated(log, "RS"), abs=0.02)
    tied = footprint.output if "output.weight" not in {t.name for t in gguf.read(models(name)).tensors} else 0
    assert (footprint.weights - tied) / MIB == pytest.approx(allocated(log, "model"), rel=0.2)
    buffers = footprint.buffers(2048, flash=info.flash_attn) / MIB
    assert allocated(log, "compute") * 0.8 <= buffers <= allocated(log, "compute") * 2 + 1


def test_every_byte_of_the_weights_is_in_some_layer_or_beside_them(noise: str) -> None:
    read = gguf.read(noise)
    footprint = of_header(read)
    assert footprint.weights == sum(tensor.nbytes for tensor in read.tensors)
    assert len({layer.weights for layer in footprint.layers}) == 1
    assert footprint.embedding == next(t.nbytes for t in read.tensors if t.name == "token_embd.weight")


def test_embeddings_that_stand_in_for_the_output_count_twice_on_a_gpu(models: Models) -> None:
    footprint = of_header(gguf.read(models("window")))
    assert footprint.output > footprint.embedding > 0


def test_a_model_in_parts_counts_them_all(tmp_path: Path, noise: str) -> None:
    ggufs.noise(tmp_path / "parts.gguf", per_file=8)
    parts = sorted(tmp_path.glob("parts-*.gguf"))
    assert len(parts) > 1
    assert of_header(gguf.read(str(parts[0]))).weights == of_header(gguf.read(noise)).weights


def test_an_outline_gives_the_same_cache_and_spreads_the_weights(noise: str) -> None:
    whole = of_header(gguf.read(noise))
    outline = of_outline(gguf.read(noise), 4000)
    assert caches(outline) == caches(whole) and outline.weights == 4000


@pytest.mark.parametrize(
    ("shape", "cache"),
    [
        (header(), [(128, 128)] * 4),
        (header(attention__head_count_kv=1), [(64, 64)] * 4),
        (header(attention__head_count_kv=1, attention__key_length=96), [(96, 64)] * 4),
        (header(attention__head_count_kv=(2, 1, 2, 1)), [(128, 128), (64, 64)] * 2),
        (header(attention__head_count=(2, 1, 2, 1)), [(128, 128), (64, 64)] * 2),
        (header(attention__shared_kv_layers=2), [(128, 128)] * 2 + [(0, 0)] * 2),
        (
            header(
                attention__key_length=64,
                attention__value_length=64,
                attention__key_length_swa=32,
                attention__value_length_swa=32,
                attention__sliding_window_pattern=(True, False, True, False),
            ),
            [(64, 64), (128, 128)] * 2,
        ),
        # Without a pattern nobody knows which layers are which: count the larger.
        (header(attention__key_length=64, attention__key_length_swa=256), [(512, 128)] * 4),
    ],
)
def test_heads_differ_from_layer_to_layer(shape: Header, cache: list[tuple[int, int]]) -> None:
    assert caches(of_outline(shape, 0)) == cache


def test_layers_that_predict_ahead_have_a_cache_in_a_recurrent_model_too() -> None:
    keys = {"ssm__inner_size": 64, "ssm__state_size": 16, "ssm__conv_kernel": 4, "full_attention_interval": 2}
    footprint = of_outline(header("qwen35", nextn_predict_layers=1, block_count=5, **keys), 0)
    assert caches(footprint) == [(0, 0), (128, 128), (0, 0), (128, 128), (128, 128)]
    # (3 steps of 64 + 2*0*16 for the convolution, 16*64 of state), four bytes each, and eight copies to go back to
    assert [layer.state for layer in footprint.layers] == [
        (3 * 64 + 16 * 64) * 4 * 9,
        0,
        (3 * 64 + 16 * 64) * 36,
        0,
        0,
    ]


@pytest.mark.parametrize(
    ("arch", "keys", "state"),
    [
        ("mamba", {"ssm__inner_size": 64, "ssm__state_size": 16, "ssm__conv_kernel": 4}, (3 * 64 + 16 * 64) * 4),
        ("lfm2", {"shortconv__l_cache": 3}, 2 * 128 * 4 * 9),
        ("rwkv7", {"wkv__head_size": 64}, (2 * 128 + 64 * 128) * 4),
    ],
)
def test_the_state_of_recurrent_layers(arch: str, keys: dict[str, int], state: int) -> None:
    footprint = of_outline(header(arch, attention__head_count=0, **keys), 0)
    assert {layer.state for layer in footprint.layers} == {state} and caches(footprint) == [(0, 0)] * 4


def test_where_heads_are_named_for_some_layers_the_others_are_recurrent() -> None:
    keys = {"ssm__inner_size": 64, "ssm__state_size": 16, "attention__head_count_kv": (0, 2, 0, 2)}
    footprint = of_outline(header("jamba", **keys), 0)
    assert [bool(layer.state) for layer in footprint.layers] == [True, False, True, False]
    assert caches(footprint) == [(0, 0), (128, 128)] * 2


def test_keys_that_nobody_knows_are_no_reason_to_fail() -> None:
    unknown = Header("x.gguf", 3, MappingProxyType({"general.architecture": "futuristic"}), (), 0, 0, None)
    footprint = of_outline(unknown, 3200)
    assert len(footprint.layers) == SLICES and footprint.weights == 3200
    assert of_outline(header(block_count=10**12), 3200).weights <= 3200


@pytest.mark.parametrize(
    ("cache", "bytes_"), [("f32", 4.0), ("f16", 2.0), ("bf16", 2.0), ("q8_0", 34 / 32), ("q4_0", 18 / 32)]
)
def test_a_cache_costs_what_its_type_says_in_whole_cells(cache: str, bytes_: float) -> None:
    footprint = of_outline(header(), 0)
    assert footprint.layer(0, 300, cache, cache) == 512 * 256 * bytes_


def test_figures_of_a_catalogue_are_equal_slices() -> None:
    footprint = of_figures(32_000, 196_608, 3200)
    sizes = [footprint.layer(i, 1024, "f16", "f16") for i in range(SLICES)]
    assert sum(sizes) == 32_000 + 1024 * 196_608 + 9 * 3200
    assert not footprint.exact and footprint.has_cache
    assert not of_figures(32_000, None).has_cache


def test_without_flash_attention_the_scores_are_kept() -> None:
    footprint = of_outline(header(), 0)
    flash, plain = (footprint.buffers(8192, flash=on) for on in (True, False))
    assert plain - flash == pytest.approx(2 * 8192 * 512 * 4, rel=0.3)


def test_a_quantised_cache_needs_heads_of_whole_blocks() -> None:
    assert of_outline(header(), 0).packable
    assert not of_outline(header(attention__key_length=48), 0).packable
    assert not of_outline(header(attention__head_count=0), 0).packable
