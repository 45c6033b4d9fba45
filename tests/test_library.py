"""The page about the library is run as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import localspec
from localspec.errors import LocalspecError
from localspec.spec.settings import Sampling
from tests.conftest import Models

PAGE = Path(__file__).parent.parent / "docs" / "library.md"


def test_the_page_runs(models: Models, noise: str, capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    code = code.replace('"target.gguf"', repr(noise)).replace('"draft.gguf"', repr(models("noise_q8")))
    exec(compile(code, str(PAGE), "exec"), {})
    printed = capsys.readouterr().out
    assert "('auto', 'off', 'lookup', 'suffix', 'draft', 'cascade')" in printed
    assert "translated" in printed, "the methods that are not there have reasons"


def test_answers_of_two_turns_reuse_the_cache(noise: str) -> None:
    with localspec.Model(noise, threads=1) as model:
        first = model.ask("abc", max_tokens=10)
        second = model.ask([localspec.Message("user", "abc"), first.message(), localspec.Message("user", "d")])
        assert second.reused_tokens >= first.prompt_tokens


def test_draft_that_does_not_fit_is_a_warning_and_the_target_answers(noise: str, tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF")
    with pytest.warns(UserWarning, match="left out"):
        model = localspec.Model(noise, str(broken), threads=1)
    with model:
        assert model.ask("abc", max_tokens=3).token_ids
        assert "draft" not in model.methods


def test_failures_are_exceptions() -> None:
    with pytest.raises(LocalspecError, match="nowhere"):
        localspec.Model("nowhere.gguf")


def test_answers_are_kept_where_a_corpus_is_named(noise: str, tmp_path: Path) -> None:
    greedy = Sampling(temperature=0)
    with localspec.Model(noise, corpus=str(tmp_path), threads=1) as model:
        said = model.ask("abc", method="off", sampling=greedy, max_tokens=40).token_ids
    with localspec.Model(noise, corpus=str(tmp_path), threads=1) as model:
        again = model.ask("abc", method="suffix", draft_tokens=8, sampling=greedy, max_tokens=40)
    assert again.token_ids == said
    assert again.stats.accepted > 30, "what was said before is proposed again"
