"""What is chosen where the user left a setting open, and what is refused. No model, no device needed."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from localspec.errors import UsageError
from localspec.gguf import Header
from localspec.llama.choices import Attention, Machine, choose, head_sizes, usual
from localspec.llama.devices import Device, backend_name
from localspec.model import ModelSpec

CPU = Device("CPU", "A processor", "cpu", "CPU", 8 << 30, 16 << 30)
CUDA = Device("CUDA0", "A card", "gpu", "CUDA", 20 << 30, 24 << 30)
METAL = Device("MTL0", "A chip", "igpu", "MTL", 20 << 30, 24 << 30)
BLAS = Device("BLAS", "A library", "accelerator", "BLAS", 0, 0)


def header(arch: str = "llama", **keys: int) -> Header:
    values = {"block_count": 30, "context_length": 32768, "embedding_length": 576} | {"attention.head_count": 9}
    values |= {key.replace("__", "."): value for key, value in keys.items()}
    metadata = MappingProxyType({"general.architecture": arch} | {f"{arch}.{k}": v for k, v in values.items()})
    return Header("m.gguf", 3, metadata, (), 0, 0, None)


def chosen(spec: ModelSpec | None = None, *devices: Device, of: Header | None = None) -> Attention:
    machine = Machine(devices or (CPU,), cores=4, cpus=8)
    return choose(spec or ModelSpec("m.gguf"), of or header(), machine).attention


def spec(**options: object) -> ModelSpec:
    return ModelSpec("m.gguf", **options)  # type: ignore[arg-type]


def test_what_is_usual_is_what_a_usual_model_gets() -> None:
    assert usual(on_gpu=False) == chosen() == Attention("on", "q8_0", "q8_0")
    assert usual(on_gpu=True) == chosen(None, CUDA, CPU)


class TestLayers:
    @pytest.mark.parametrize(
        ("devices", "layers"), [((CPU,), 0), ((CPU, BLAS), 0), ((CUDA, CPU), 31), ((METAL, CPU), 31)]
    )
    def test_everything_goes_to_a_gpu_if_there_is_one(self, devices: tuple[Device, ...], layers: int) -> None:
        assert choose(spec(), header(), Machine(devices, 4, 8)).gpu_layers == layers

    @pytest.mark.parametrize(("asked", "layers"), [(0, 0), (10, 10), (-1, 31), (99, 31)])
    def test_the_users_number_wins(self, asked: int, layers: int) -> None:
        assert choose(spec(gpu_layers=asked), header(), Machine((CUDA, CPU), 4, 8)).gpu_layers == layers

    @pytest.mark.parametrize("asked", [20, -1])
    def test_layers_on_a_gpu_that_is_not_there(self, asked: int) -> None:
        with pytest.raises(UsageError, match="sees no GPU"):
            choose(spec(gpu_layers=asked), header(), Machine((CPU,), 4, 8))

    def test_none_on_a_gpu_that_is_not_there(self) -> None:
        assert choose(spec(gpu_layers=0), header(), Machine((CPU,), 4, 8)).gpu_layers == 0


class TestThreads:
    @pytest.mark.parametrize(("asked", "threads"), [(None, 4), (1, 1), (4, 4), (8, 8)])
    def test_one_for_each_core_unless_the_user_says_otherwise(self, asked: int | None, threads: int) -> None:
        assert choose(spec(threads=asked), header(), Machine((CPU,), 4, 8)).threads == threads

    @pytest.mark.parametrize("asked", [0, -2, 9])
    def test_outside_what_the_process_may_use(self, asked: int) -> None:
        with pytest.raises(UsageError, match=f"--threads is {asked}.*8 processors"):
            choose(spec(threads=asked), header(), Machine((CPU,), 4, 8))


class TestContext:
    @pytest.mark.parametrize(
        ("trained", "asked", "n_ctx"),
        [(32768, None, 8192), (2048, None, 2048), (0, None, 8192), (32768, 32768, 32768), (0, 99, 99)],
    )
    def test_size(self, trained: int, asked: int | None, n_ctx: int) -> None:
        found = choose(spec(n_ctx=asked), header(context_length=trained), Machine((CPU,), 4, 8))
        assert found.n_ctx == n_ctx

    def test_more_than_the_model_was_trained_for(self) -> None:
        with pytest.raises(UsageError) as caught:
            chosen(spec(n_ctx=32769))
        assert caught.value.message == "--n-ctx is 32,769, but this model was trained for 32,768 tokens."
        assert "32768" in caught.value.hint


class TestAttention:
    def test_a_processor_gets_flash_attention_on_a_quantised_cache(self) -> None:
        assert chosen() == Attention("on", "q8_0", "q8_0")

    def test_where_the_heads_do_not_fit_neither(self) -> None:
        assert chosen(of=header(attention__head_count=12)) == Attention("off", "f16", "f16")

    def test_one_odd_kind_of_head_is_enough(self) -> None:
        odd = header(attention__key_length=64, attention__value_length=64, attention__key_length_swa=80)
        assert chosen(of=odd) == Attention("off", "f16", "f16")

    def test_a_gpu_gets_llama_cpps_own_choice(self) -> None:
        for gpu in (CUDA, METAL):
            assert chosen(None, gpu, CPU) == Attention("auto", "f16", "f16")

    def test_an_idle_gpu_does_not_count(self) -> None:
        assert chosen(spec(gpu_layers=0), CUDA, CPU) == Attention("on", "q8_0", "q8_0")

    def test_without_attention_there_is_nothing_to_win(self) -> None:
        assert chosen(of=header(attention__head_count=0)) == Attention("off", "f16", "f16")

    def test_grok_never_gets_flash_attention(self) -> None:
        assert chosen(of=header("grok")) == Attention("off", "f16", "f16")
        with pytest.raises(UsageError, match="can't use flash attention"):
            chosen(spec(flash_attn="on"), of=header("grok"))

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"flash_attn": "off"}, Attention("off", "f16", "f16")),
            ({"flash_attn": "on"}, Attention("on", "q8_0", "q8_0")),
            ({"cache_type_k": "f16", "cache_type_v": "f16"}, Attention("off", "f16", "f16")),
            ({"cache_type_k": "bf16", "cache_type_v": "bf16"}, Attention("on", "bf16", "bf16")),
            ({"cache_type_k": "q4_0"}, Attention("on", "q4_0", "q4_0")),
            ({"cache_type_v": "Q5_1"}, Attention("on", "q5_1", "q5_1")),
            ({"cache_type_k": "q8_0", "cache_type_v": "f16"}, Attention("off", "q8_0", "f16")),
            ({"flash_attn": "on", "cache_type_k": "f16"}, Attention("on", "f16", "f16")),
        ],
    )
    def test_explicit_settings_win(self, options: dict[str, str], expected: Attention) -> None:
        assert chosen(spec(**options)) == expected

    @pytest.mark.parametrize(
        ("options", "heads", "message"),
        [
            ({"flash_attn": "off", "cache_type_v": "q8_0"}, 9, "--cache-type-v q8_0 needs flash attention"),
            ({"cache_type_k": "q8_0"}, 12, "--cache-type-k q8_0 needs heads of a multiple of 32.*heads of 48"),
            ({"flash_attn": "on", "cache_type_v": "q4_0"}, 12, "--cache-type-. q4_0 needs heads"),
            ({"cache_type_k": "q9_9"}, 9, "--cache-type-k is 'q9_9'"),
            ({"flash_attn": "yes"}, 9, "--flash-attn is 'yes'"),
        ],
    )
    def test_what_cannot_be(self, options: dict[str, str], heads: int, message: str) -> None:
        with pytest.raises(UsageError, match=message) as caught:
            chosen(spec(**options), of=header(attention__head_count=heads))
        assert caught.value.hint

    def test_a_quantised_k_alone_needs_no_flash_attention(self) -> None:
        options = spec(flash_attn="off", cache_type_k="q8_0", cache_type_v="f16")
        assert chosen(options, of=header(attention__head_count=12)) == Attention("off", "q8_0", "f16")


def test_head_sizes_are_named_or_follow_from_the_width() -> None:
    assert head_sizes(header()) == {64}
    assert head_sizes(header(attention__key_length=128, attention__value_length=96)) == {128, 96}
    assert head_sizes(header(attention__key_length=128)) == {128, 64}


def test_the_backend_is_where_the_layers_go() -> None:
    assert backend_name((CPU,)) == "CPU"
    assert backend_name((METAL, CPU)) == "Metal"
    assert backend_name((METAL, CUDA, CPU)) == "CUDA"


def test_the_batch_must_hold_a_pass_that_checks_a_draft() -> None:
    machine = Machine((CPU,), cores=4, cpus=8)
    assert choose(spec(), header(), machine).n_batch == 512
    assert choose(spec(n_batch=65), header(), machine).n_batch == 65
    with pytest.raises(UsageError, match="--n-batch is 64"):
        choose(spec(n_batch=64), header(), machine)
