"""LlamaModel on real llama.cpp: the logits, the cache, the limits, the life cycle."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from localspec.errors import LoadCancelled, ModelError, ModelLoadError, UsageError
from localspec.llama.model import LlamaModel
from localspec.llama.native import lc
from localspec.model import ModelSpec
from tests import ggufs
from tests.conftest import Load, Models

TEXT = np.random.default_rng(7).integers(3, 260, size=60).tolist()


def one_by_one(model: LlamaModel, tokens: list[int]) -> np.ndarray:
    return np.concatenate([model.decode([token], rows=1).copy() for token in tokens])


class TestDecode:
    @pytest.mark.parametrize("width", range(2, 10))
    def test_the_width_of_a_batch_does_not_show_in_the_logits(self, models: Models, load: Load, width: int) -> None:
        """To the bit, on the default settings for a processor: see docs/architecture.md."""
        single, wide = load(models("noise_q8")), load(models("noise_q8"))
        blocks = [TEXT[i : i + width] for i in range(0, len(TEXT), width)]
        found = np.concatenate([wide.decode(block, rows=len(block)).copy() for block in blocks])
        assert np.array_equal(found, one_by_one(single, TEXT))

    def test_nor_on_the_demo_model(self, demo_model: str, load: Load) -> None:
        model = load(demo_model)
        ids = model.vocab.tokenise("A hash table maps keys to values. " * 5, special=False, bos=False)
        single = one_by_one(model, ids)
        for width in (2, 9):
            model.rewind(0)
            for i in range(0, len(ids), width):
                block = ids[i : i + width]
                assert np.array_equal(model.decode(block, rows=len(block)), single[i : i + len(block)])

    def test_rows_belong_to_the_last_tokens(self, models: Models, load: Load) -> None:
        all_rows = load(models("noise_q8")).decode(TEXT, rows=len(TEXT)).copy()
        for rows in (0, 1, 7):
            found = load(models("noise_q8")).decode(TEXT, rows=rows)
            assert found.shape == (rows, len(ggufs.bpe().texts))
            assert found.dtype == np.float32
            assert np.array_equal(found, all_rows[len(TEXT) - rows :])

    def test_rows_are_a_view_that_the_next_decode_overwrites(self, noise: str, load: Load) -> None:
        model = load(noise)
        first = model.decode(TEXT[:3], rows=3)
        before = first.copy()
        second = model.decode(TEXT[3:6], rows=3)
        assert np.shares_memory(first, second)
        assert not np.array_equal(first, before)

    def test_any_sequence_of_ids_will_do(self, noise: str, load: Load) -> None:
        model = load(noise)
        expected = model.decode([5, 6, 7], rows=1).copy()
        for tokens in ((5, 6, 7), np.array([5, 6, 7], np.int32)):
            model.rewind(0)
            assert np.array_equal(model.decode(tokens, rows=1), expected)

    def test_known_probabilities(self, tmp_path: Path, load: Load) -> None:
        path = ggufs.chain(tmp_path / "chain.gguf", {1: {10: 0.6, 11: 0.3, 12: 0.1}})
        row = load(str(path)).decode([1], rows=1)[0].astype(np.float64)
        p = np.exp(row - row.max())
        p /= p.sum()
        assert p[[10, 11, 12]] == pytest.approx([0.6, 0.3, 0.1], abs=1e-4)

    def test_the_demo_model_knows_its_capitals(self, demo_model: str, load: Load) -> None:
        model = load(demo_model)
        ids = model.vocab.tokenise("The capital of France is", special=False, bos=False)
        row = model.decode(ids, rows=1)[0]
        assert model.vocab.pieces[int(row.argmax())] == b" Paris"


class TestLimits:
    def test_requests_that_would_end_the_process_are_errors_and_change_nothing(
        self, noise: str, load: Load
    ) -> None:
        model = load(noise, max_rows=4)
        model.decode(TEXT[:3], rows=1)
        v = model.n_vocab
        bad: tuple[tuple[list[int], int], ...] = (
            *(([], 0), ([3] * (model.n_batch + 1), 1), ([3] * 5, 5), ([3], 2)),
            *(([3], -1), ([v], 1), ([-1], 1), ([2**40], 1), ([3] * 254, 1)),
        )
        for tokens, rows in bad:
            with pytest.raises(ModelError):
                model.decode(tokens, rows=rows)
        assert model.cached.tolist() == TEXT[:3]
        assert np.array_equal(model.decode([9], rows=1), one_by_one(load(noise), [*TEXT[:3], 9])[-1:])

    def test_the_context_can_be_filled_to_the_last_token(self, noise: str, load: Load) -> None:
        model = load(noise)
        model.decode([5] * 256, rows=1)
        with pytest.raises(ModelError, match="context is full"):
            model.decode([5], rows=1)
        assert len(model.cached) == 256

    def test_the_context_size_is_read_back(self, noise: str, load: Load) -> None:
        model = load(noise, n_ctx=64)
        assert model.n_ctx == model.info.n_ctx == 256  # llama.cpp rounds up

    def test_rewinding_outside_what_is_cached(self, noise: str, load: Load) -> None:
        model = load(noise)
        model.decode(TEXT[:3], rows=1)
        for length in (-1, 4):
            with pytest.raises(ModelError):
                model.rewind(length)
        assert model.cached.tolist() == TEXT[:3]

    @pytest.mark.parametrize("rows", [0, 513])
    def test_a_row_limit_outside_the_batch_is_refused(self, noise: str, load: Load, rows: int) -> None:
        with pytest.raises(UsageError):
            load(noise, max_rows=rows)


def failing(code: int, *, after: bool) -> Callable[..., int]:
    """llama_decode that returns `code`, before or after it has really written to the cache."""
    real = lc.llama_decode

    def decode(context: object, batch: object) -> int:
        if after:
            assert real(context, batch) == 0
        return code

    return decode


class TestFailures:
    @pytest.mark.parametrize("code", [1, -1, 2, -2, -3, 99])
    def test_a_failed_decode_is_a_sentence_and_the_cache_is_what_cached_says(
        self, models: Models, load: Load, monkeypatch: pytest.MonkeyPatch, code: int
    ) -> None:
        model = load(models("noise_q8"))
        model.decode(TEXT[:5], rows=1)
        with monkeypatch.context() as broken:
            broken.setattr(lc, "llama_decode", failing(code, after=code in (2, -2, -3)))
            with pytest.raises(ModelError) as caught:
                model.decode(TEXT[5:9], rows=1)
        assert caught.value.message.endswith(".") and caught.value.hint
        assert model.cached.tolist() == TEXT[:5]
        expected = one_by_one(load(models("noise_q8")), TEXT[:9])[-1:]
        assert np.array_equal(model.decode(TEXT[5:9], rows=1), expected)

    @pytest.mark.parametrize("name", ["recur", "hybrid"])
    def test_recurrent_state_is_dropped_after_a_failure(
        self, models: Models, load: Load, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        model = load(models(name))
        model.decode(TEXT[:5], rows=1)
        with monkeypatch.context() as broken:
            broken.setattr(lc, "llama_decode", failing(-3, after=True))
            with pytest.raises(ModelError):
                model.decode(TEXT[5:9], rows=1)
        assert model.cached.tolist() == []
        assert np.array_equal(model.decode(TEXT[:5], rows=1), load(models(name)).decode(TEXT[:5], rows=1))


class TestLife:
    def test_a_closed_model_says_so(self, noise: str, load: Load) -> None:
        model = load(noise)
        model.close()
        model.close()
        for use in (
            lambda: model.decode([3], rows=1),
            lambda: model.rewind(0),
            lambda: model.vocab.pieces,
            lambda: model.vocab.eog,
            lambda: model.vocab.tokenise("a", special=False, bos=False),
            lambda: model.vocab.chat_template,
        ):
            with pytest.raises(ModelError, match="closed"):
                use()

    def test_loading_and_closing_gives_the_memory_back(self, noise: str) -> None:
        def load_and_close() -> None:
            LlamaModel.load(ModelSpec(noise, threads=1, n_ctx=2048)).close()

        for _ in range(10):
            load_and_close()
        before = resident()
        for _ in range(40):
            load_and_close()
        # Forty forgotten contexts would be 90 MB, models 30 MB, batches 3 MB.
        assert resident() - before < 1_500_000

    def test_a_forgotten_model_is_freed(self, noise: str, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
        freed: list[str] = []
        for name in ("llama_batch_free", "llama_free", "llama_model_free"):
            real = getattr(lc, name)
            monkeypatch.setattr(lc, name, lambda p, name=name, real=real: (freed.append(name), real(p)))
        model = LlamaModel.load(ModelSpec(noise, threads=1, n_ctx=256))
        del model
        gc.collect()
        assert freed == ["llama_batch_free", "llama_free", "llama_model_free"]


def resident() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


class TestLoad:
    def test_what_was_chosen_is_told(self, models: Models, load: Load) -> None:
        info = load(models("noise_q8")).info
        assert (info.role, info.name, info.architecture) == ("target", "noise", "llama")
        assert (info.n_ctx, info.n_ctx_train, info.n_layer) == (256, 2048, 2)
        assert (info.flash_attn, info.cache_type_k, info.cache_type_v) == (True, "q8_0", "q8_0")
        assert (info.threads, info.gpu_layers) == (1, 0)
        assert info.bytes == Path(models("noise_q8")).stat().st_size
        assert info.rollback == "PART" and info.speculation_off is None

    def test_heads_that_do_not_fit_the_quantised_cache(self, models: Models, load: Load) -> None:
        info = load(models("odd_heads")).info
        assert (info.flash_attn, info.cache_type_k, info.cache_type_v) == (False, "f16", "f16")

    @pytest.mark.parametrize("kind", ["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"])
    def test_every_cache_type_works(self, noise: str, load: Load, kind: str) -> None:
        model = load(noise, cache_type_k=kind, cache_type_v=kind)
        assert model.info.cache_type_v == kind
        assert np.isfinite(model.decode(TEXT, rows=1)).all()

    @pytest.mark.parametrize(
        "options",
        [
            {"n_ctx": 4096},
            {"n_ctx": 0},
            {"threads": 0},
            {"gpu_layers": 3},
            {"flash_attn": "maybe"},
            {"cache_type_k": "q9"},
            {"flash_attn": "off", "cache_type_v": "q8_0"},
        ],
    )
    def test_settings_that_cannot_be_are_wrong_usage(
        self, noise: str, load: Load, options: dict[str, object]
    ) -> None:
        with pytest.raises(UsageError) as caught:
            load(noise, **options)
        assert caught.value.exit_code == 2 and caught.value.hint

    def test_an_unknown_architecture_is_named_with_the_engines_version(self, models: Models, load: Load) -> None:
        with pytest.raises(ModelLoadError) as caught:
            load(models("unknown"))
        version = lc.llama_version().decode()
        assert caught.value.reason == f"llama.cpp {version} does not know the architecture 'futuristic'"
        assert any("futuristic" in line for line in caught.value.lines)

    def test_a_bad_file_never_reaches_llama_cpp(self, tmp_path: Path, load: Load) -> None:
        path = ggufs.noise(tmp_path / "m.gguf", pieces=ggufs.bpe(("twice", "twice")))
        with pytest.raises(ModelLoadError, match="'twice' twice"):
            load(str(path))

    def test_shards_load_as_one(self, tmp_path: Path, noise: str, load: Load) -> None:
        ggufs.noise(tmp_path / "m.gguf", per_file=8)
        model = load(str(tmp_path / "m-00001-of-00003.gguf"))
        assert np.array_equal(model.decode(TEXT, rows=1), load(noise).decode(TEXT, rows=1))
        assert model.info.bytes == sum(p.stat().st_size for p in tmp_path.iterdir())

    def test_progress_is_reported_up_to_the_end(self, demo_model: str, load: Load) -> None:
        seen: list[float] = []
        load(demo_model, on_progress=lambda fraction: seen.append(fraction) or True)  # type: ignore[func-returns-value]
        assert len(seen) > 10 and seen == sorted(seen) and seen[-1] == 1.0

    def test_loading_can_be_cancelled(self, demo_model: str, load: Load) -> None:
        seen: list[float] = []

        def until_a_third(fraction: float) -> bool:
            seen.append(fraction)
            return fraction < 0.33

        with pytest.raises(LoadCancelled) as caught:
            load(demo_model, on_progress=until_a_third)
        assert caught.value.exit_code == 130
        assert 0.33 <= seen[-1] < 0.9
        load(demo_model)

    def test_an_exception_in_the_progress_comes_through(self, noise: str, load: Load) -> None:
        def interrupt(_: float) -> bool:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            load(noise, on_progress=interrupt)
