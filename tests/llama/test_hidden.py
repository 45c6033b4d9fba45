"""Functions that llama.cpp does not promise: found by name, read rightly, and missed with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec.errors import ModelError, ModelLoadError
from localspec.llama import hidden
from localspec.llama.drafters.features import Features
from localspec.llama.model import LlamaModel
from localspec.llama.native import Native, lc
from tests import ggufs, ggufs_heads
from tests.conftest import Load, Models
from tests.llama.drafting import head

SYMBOLS = {symbol.name: symbol for needed in hidden.FEATURES.values() for symbol in needed}
TEXT = [100, 7, 7, 200, 31]


class Without:
    """llama.cpp as another build might be."""

    def __init__(self, *names: str) -> None:
        self._hidden = {spelling for name in names for spelling in SYMBOLS[name].spellings}

    def __getattr__(self, name: str) -> Any:
        if name in self._hidden:
            raise AttributeError(name)
        return getattr(lc._lib, name)


class Spelt:
    """A library with one way of spelling its functions."""

    def __init__(self, way: int) -> None:
        self._known = {symbol.spellings[way]: Function() for symbol in SYMBOLS.values()}

    def __getattr__(self, name: str) -> Any:
        try:
            return self._known[name]
        except KeyError:
            raise AttributeError(name) from None


class Function:
    argtypes: list[type]
    restype: type | None


class TestSymbols:
    def test_this_build_has_them_all(self) -> None:
        assert {feature: hidden.missing(feature) for feature in hidden.FEATURES} == dict.fromkeys(hidden.FEATURES)

    @pytest.mark.parametrize("way", [0, 1, 2])
    def test_each_spelling_is_found_and_gets_its_types(self, way: int) -> None:
        found = hidden.probe(Spelt(way))
        assert set(found) == set(SYMBOLS)
        for name, function in found.items():
            assert function.argtypes == list(SYMBOLS[name].arguments) and function.restype is SYMBOLS[name].result

    def test_the_names_that_the_compilers_of_each_system_give(self) -> None:
        plain, unix, windows = SYMBOLS["llama_set_embeddings_layer_inp"].spellings
        assert plain == "llama_set_embeddings_layer_inp"
        assert unix == "_Z30llama_set_embeddings_layer_inpP13llama_contextjb"
        assert windows == "?llama_set_embeddings_layer_inp@@YAXPEAUllama_context@@I_N@Z"

    @pytest.mark.parametrize("name", SYMBOLS)
    def test_a_missing_one_costs_the_drafters_that_need_it_and_is_named(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(hidden, "_found", hidden.probe(Without(name)))
        for feature, needed in hidden.FEATURES.items():
            sentence = hidden.missing(feature)
            if SYMBOLS[name] in needed:
                assert sentence is not None and name in sentence and feature in sentence
            else:
                assert sentence is None
        with pytest.raises(ModelError, match=name):
            hidden._call(SYMBOLS[name], None)

    def test_the_head_is_refused_and_the_model_is_not_touched(
        self, tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = load(str(ggufs_heads.target(tmp_path / "target.gguf")))
        monkeypatch.setattr(hidden, "_found", hidden.probe(Without("llama_set_embeddings_layer_inp")))
        for build in (ggufs_heads.eagle3, ggufs_heads.dflash):
            with pytest.raises(ModelLoadError, match="does not export llama_set_embeddings_layer_inp"):
                head(model, str(build(tmp_path / "head.gguf")))
        assert np.isfinite(model.decode(TEXT, rows=1)).all()


class TestStates:
    def test_what_enters_the_first_layer_are_the_embeddings(self, tmp_path: Path, load: Load) -> None:
        model = load(str(ggufs.chain(tmp_path / "chain.gguf", {})))
        _, context = model.lend(Native())
        hidden.keep_layer(context, 0)
        model.decode(TEXT, rows=0)
        rows = hidden.layer(context, 0, len(TEXT), 320)
        assert rows.argmax(axis=1).tolist() == TEXT and rows.sum() == len(TEXT)
        before = rows.copy()
        model.decode([9, 9, 9], rows=1)
        assert np.array_equal(rows, before)

    def test_what_leaves_the_last_layer_gives_the_logits(self, models: Models, load: Load) -> None:
        """Normalised and multiplied with the output, which in this model are its embeddings."""
        model = load(models("hybrid"))
        _, context = model.lend(Native())
        hidden.keep_nextn(context, masked=False)
        logits = model.decode(TEXT, rows=len(TEXT))
        rows = hidden.nextn(context, len(TEXT), 64)
        normal = rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-6)
        embeddings = np.array(Tensors(models("hybrid"))["token_embd.weight"])
        assert np.allclose(normal @ embeddings.T, logits, atol=1e-3)
        assert np.array_equal(hidden.nextn_row(context, 3, 64), rows[3])

    def test_nothing_kept_is_an_error(self, noise: str, load: Load) -> None:
        model = load(noise)
        _, context = model.lend(Native())
        model.decode(TEXT, rows=1)
        with pytest.raises(ModelError, match="kept no hidden states"):
            hidden.nextn(context, 1, 64)


class TestFeatures:
    """The rows that wait for a head."""

    @pytest.fixture
    def model(self, tmp_path: Path, load: Load) -> LlamaModel:
        return load(str(ggufs_heads.target(tmp_path / "target.gguf")))

    def test_layers_stand_side_by_side_in_their_order(self, model: LlamaModel) -> None:
        _, context = model.lend(Native())
        features = Features(context, (3, 0, 1), 64)
        model.decode(TEXT, rows=0)
        features.add(len(TEXT))
        expected = [hidden.layer(context, layer, len(TEXT), 64) for layer in (3, 0, 1)]
        assert np.array_equal(features[0 : len(TEXT)], np.concatenate(expected, axis=1))

    def test_cutting_dropping_and_adding_keep_each_row_at_its_position(self, model: LlamaModel) -> None:
        """Against a dictionary from position to row, over many random steps."""
        _, context = model.lend(Native())
        features, known, rng = Features(context, (2,), 64), dict[int, np.ndarray](), np.random.default_rng(3)
        for _ in range(300):
            held = len(model.cached)
            if held > 200 or rng.random() < 0.3:
                model.rewind(int(rng.integers(max(0, held - 80), min(held, 200) + 1)))
            start, count = len(model.cached), int(rng.integers(1, 40))
            model.decode(rng.integers(3, 260, size=count), rows=0)
            features.cut(start)
            features.add(count)
            known |= dict(enumerate(hidden.layer(context, 2, count, 64), start))
            if rng.random() < 0.3:
                features.drop(int(rng.integers(features.first, features.end + 1)))
            assert features.end == start + count
            for position in range(features.first, features.end):
                assert np.array_equal(features[position : position + 1][0], known[position])


class Tensors(dict[str, np.ndarray]):
    def __init__(self, path: str) -> None:
        from gguf import GGUFReader

        super().__init__((tensor.name, tensor.data) for tensor in GGUFReader(path).tensors)


class TestListening:
    def test_each_decode_that_succeeded_is_told_with_its_place(self, noise: str, load: Load) -> None:
        model, heard = load(noise), list[tuple[list[int], int]]()
        stop = model.subscribe(lambda tokens, start: heard.append((tokens.tolist(), start)))
        model.decode([5, 6, 7], rows=1)
        model.rewind(2)
        model.decode((8,), rows=0)
        with pytest.raises(ModelError):
            model.decode([10**6], rows=0)
        stop()
        stop()
        model.decode([9], rows=1)
        assert heard == [([5, 6, 7], 0), ([8], 2)]

    def test_what_was_lent_is_freed_first_and_once(self, noise: str, load: Load) -> None:
        model, borrower, freed = load(noise), Native(), list[str]()
        borrower.own("thing", freed.append)
        model.lend(borrower)
        model.close()
        borrower.close()
        assert freed == ["thing"]
        with pytest.raises(ModelError, match="closed"):
            model.lend(Native())
