"""Every kind of drafter behind the engine: it is there or its reason is, and greedy text stays plain decoding's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from localspec.engine.messages import Finished, Load, Ready
from localspec.errors import ModelError
from localspec.llama.drafters.head import HeadContext
from localspec.llama.drafters.mtp import Mtp
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from tests import ggufs, ggufs_heads, ggufs_mtp
from tests.conftest import Models
from tests.engine.driver import Driver

PROMPT = "abcabcabcabd" * 4


def open_pair(target: str, draft: str | None = None) -> Driver:
    driver = Driver(target, threads=1, n_ctx=512)
    if draft:
        driver.events.clear()
        driver.engine.handle(Load(ModelSpec(target, threads=1, n_ctx=512), ModelSpec(draft, threads=1)))
    return driver


def ready(driver: Driver) -> Ready:
    return driver.of(Ready)[-1]


@pytest.fixture
def pair(noise: str, models: Models) -> Iterator[Driver]:
    driver = open_pair(noise, models("noise_q8"))
    yield driver
    driver.engine.close()


def same_text(driver: Driver, *methods: str) -> None:
    unending = Sampling(banned=driver.eog)
    plain = driver.ask(PROMPT, method="off", max_tokens=120, sampling=unending)
    for method in methods:
        for k in (1, 4, None):
            drafted = driver.ask(PROMPT, method=method, max_tokens=120, sampling=unending, draft_tokens=k)
            assert drafted.token_ids == plain.token_ids, (method, k)


def test_draft_model_drafts(pair: Driver) -> None:
    assert ready(pair).draft is not None
    assert {"draft", "cascade", "auto"} <= set(ready(pair).methods)
    same_text(pair, "draft", "cascade", "suffix", "auto")
    answer = pair.ask(PROMPT, method="draft", max_tokens=60, draft_tokens=4)
    assert answer.stats.accepted > 0
    assert {done.source for done in answer.rounds if done.drafted} == {"draft"}


def test_drafter_of_another_package_is_a_method(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "localspec.spec.drafters.lookup:Lookup", "localspec.drafters")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [point])
    driver = open_pair(noise)
    assert "theirs" in ready(driver).methods
    same_text(driver, "theirs")
    driver.engine.close()


def test_draft_with_another_tokeniser_is_translated(noise: str, tmp_path: Path) -> None:
    other = ggufs.noise(tmp_path / "other.gguf", pieces=ggufs.spm())
    driver = open_pair(noise, str(other))
    assert "translated" in ready(driver).methods, driver.notices
    assert "draft" not in ready(driver).methods
    same_text(driver, "translated")
    driver.engine.close()


def test_head_in_the_models_own_file_drafts(tmp_path: Path) -> None:
    driver = open_pair(str(ggufs_mtp.qwen35(tmp_path / "qwen35.gguf")))
    assert "mtp" in ready(driver).methods, dict(ready(driver).reasons)
    same_text(driver, "mtp")
    driver.engine.close()


@pytest.mark.parametrize("method", ["eagle3", "dflash"])
def test_head_in_a_file_of_its_own_drafts(tmp_path: Path, method: str) -> None:
    target = ggufs_heads.target(tmp_path / "target.gguf")
    head = ggufs_heads.HEADS[method](tmp_path / "head.gguf")
    driver = open_pair(str(target), str(head))
    assert method in ready(driver).methods, (driver.notices, dict(ready(driver).reasons))
    same_text(driver, method)
    driver.engine.close()


def test_methods_that_are_not_there_have_reasons(noise: str) -> None:
    driver = open_pair(noise)
    reasons = dict(ready(driver).reasons)
    assert set(reasons) == {"draft", "translated", "cascade", "mtp", "eagle3", "dflash"}
    assert all(reasons.values())
    driver.ask(PROMPT, method="draft", max_tokens=3)
    assert any("'draft' is not used" in text and "--draft" in text for text in driver.notices)
    driver.engine.close()


@pytest.mark.parametrize("damage", ["missing", "truncated", "text"])
def test_draft_that_cannot_be_loaded_leaves_the_target(noise: str, tmp_path: Path, damage: str) -> None:
    draft = tmp_path / "draft.gguf"
    if damage == "truncated":
        draft.write_bytes(Path(noise).read_bytes()[:5000])
    elif damage == "text":
        draft.write_text("<html>not found</html>")
    driver = open_pair(noise, str(draft))
    assert any("draft is left out" in text for text in driver.notices)
    assert len(driver.ask(PROMPT, max_tokens=5).token_ids) == 5
    driver.engine.close()


def test_earlier_answers_are_kept_per_vocabulary_and_only_where_asked(noise: str, tmp_path: Path) -> None:
    spec = ModelSpec(noise, threads=1, n_ctx=512)
    driver = Driver(noise, threads=1)
    driver.ask("abc", max_tokens=40)
    assert not list(tmp_path.iterdir())
    for _ in range(2):
        driver.engine.handle(Load(spec, corpus=str(tmp_path), corpus_tokens=1000))
        driver.ask("abc", max_tokens=40, sampling=Sampling(banned=driver.eog))
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    answer = driver.ask("abc", method="suffix", max_tokens=40, sampling=Sampling(banned=driver.eog))
    assert answer.stats.accepted > 20, "the same answer came twice before"
    driver.engine.close()


def test_damaged_file_of_earlier_answers_is_said_and_left_alone(noise: str, tmp_path: Path) -> None:
    load = Load(ModelSpec(noise, threads=1), corpus=str(tmp_path), corpus_tokens=1000)
    driver = Driver(noise, threads=1)
    driver.engine.handle(load)
    driver.ask("abc", max_tokens=40)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(b"garbage")
    driver.events.clear()
    driver.engine.handle(load)
    assert any("earlier answers" in text for text in driver.notices)
    assert driver.ask("abc", max_tokens=5).token_ids
    assert kept.read_bytes() == b"garbage"
    driver.engine.close()


class TestWhatIsSaid:
    """Nothing is off, short or lost in silence, and nothing is said twice."""

    def test_drafts_longer_than_a_head_can_write_are_clamped_and_said_once(self, tmp_path: Path) -> None:
        target, head = ggufs_heads.target(tmp_path / "t.gguf"), ggufs_heads.dflash(tmp_path / "h.gguf")
        with closing(open_pair(str(target), str(head))) as driver:
            driver.ask(PROMPT, method="dflash", max_tokens=5, draft_tokens=7)
            assert driver.notices == []
            driver.ask(PROMPT, method="dflash", max_tokens=5, draft_tokens=20)
            assert driver.notices == [
                "Draft length 20 is clamped to 7: this dflash head was trained on blocks of 8 tokens."
            ]
            driver.ask(PROMPT, method="dflash", max_tokens=5, draft_tokens=20)
            driver.ask(PROMPT, method="lookup", max_tokens=5, draft_tokens=20)
            assert driver.notices == []

    def test_a_draft_that_a_head_lost_is_said_once_and_the_answer_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        target, head = ggufs_heads.target(tmp_path / "t.gguf"), ggufs_heads.eagle3(tmp_path / "h.gguf")
        with closing(open_pair(str(target), str(head))) as driver:
            unending = Sampling(banned=driver.eog)
            plain = driver.ask(PROMPT, method="off", max_tokens=30, sampling=unending)
            broken = HeadContext.decode

            def fails(self: HeadContext, start: int, *rest: Any, **wanted: Any) -> None:
                if start % 5 == 0:
                    raise ModelError("The head failed with code -3.")
                broken(self, start, *rest, **wanted)

            monkeypatch.setattr(HeadContext, "decode", fails)
            answer = driver.ask(PROMPT, method="eagle3", max_tokens=30, sampling=unending)
            assert answer.token_ids == plain.token_ids and answer.error is None
            (said,) = driver.notices
            assert "eagle3" in said and "code -3" in said

    def test_a_head_that_can_not_be_built_is_said_when_it_is_loaded(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(*_: Any) -> None:
            raise ModelError("There was not enough memory for it.")

        monkeypatch.setattr(HeadContext, "_open", full)
        target, head = ggufs_heads.target(tmp_path / "t.gguf"), ggufs_heads.eagle3(tmp_path / "h.gguf")
        with closing(open_pair(str(target), str(head))) as driver:
            assert "The head is left out: There was not enough memory for it." in driver.notices
            assert len(driver.ask(PROMPT, max_tokens=5).token_ids) == 5

    def test_layers_that_were_named_go_before_those_in_the_file(self, tmp_path: Path) -> None:
        target, head = ggufs_mtp.qwen35(tmp_path / "t.gguf"), ggufs_mtp.qwen35_head(tmp_path / "h.gguf")
        with closing(open_pair(str(target), str(head))) as driver:
            assert "mtp" in ready(driver).methods
            loaded = driver.engine._loaded
            assert loaded is not None
            built = loaded.drafting.get("mtp")
            assert isinstance(built, Mtp) and built.head.header.path == str(head)
            assert len(loaded.target._listeners) == 1, "the layers in the file were not built beside them"
            same_text(driver, "mtp")

    def test_a_draft_with_few_pieces_in_common_is_said(self, noise: str, tmp_path: Path) -> None:
        words = tuple(f"word{i}" for i in range(700))
        other = ggufs.noise(tmp_path / "other.gguf", pieces=ggufs.bpe(words))
        with closing(open_pair(noise, str(other))) as driver:
            driver.ask(PROMPT, method="translated", max_tokens=5)
            (said,) = driver.notices
            assert "The draft shares only 27% of its pieces" in said


class TestAdvice:
    def test_what_was_measured_comes_with_the_end_of_an_answer(self, noise: str) -> None:
        with closing(open_pair(noise)) as driver:
            answer = driver.ask(PROMPT, method="auto", draft_tokens=None, max_tokens=100)
            (finished,) = driver.of(Finished)
            assert answer.advice == finished.advice
            by_source = {advice.source: advice for advice in answer.advice}
            assert by_source.keys() <= {"lookup", "suffix"} and by_source
            for advice in answer.advice:
                assert len(advice.speedups) == 16 and advice.sentence
                assert advice.best == 0 or advice.speedups[advice.best - 1] == max(advice.speedups)

    def test_a_fixed_length_measures_nothing(self, noise: str) -> None:
        with closing(open_pair(noise)) as driver:
            assert driver.ask(PROMPT, method="lookup", draft_tokens=4, max_tokens=40).advice == ()
