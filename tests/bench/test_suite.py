"""The prompts: our own suite, a user's, and Spec-Bench's format; and what is wrong with a file, by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localspec.bench import suite
from localspec.errors import UnknownName, UsageError


def file(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "suite.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return path


def test_our_own_suite_has_six_categories_of_eight_and_several_turns() -> None:
    found = suite.read()
    assert found.categories == ("chat", "code writing", "code editing", "summary", "translation", "reasoning")
    for category in found.categories:
        assert sum(prompt.category == category for prompt in found.prompts) == 8
        assert any(len(prompt.turns) > 1 for prompt in found.prompts if prompt.category == category)


def test_spec_bench_questions_are_read_as_they_are(tmp_path: Path) -> None:
    line = {"question_id": 81, "category": "writing", "turns": ["Compose a post.", "Rewrite it."], "reference": []}
    found = suite.read(file(tmp_path, json.dumps(line), ""))
    assert found.prompts == (suite.Prompt("81", "writing", ("Compose a post.", "Rewrite it.")),)


def test_a_line_may_be_a_bare_prompt(tmp_path: Path) -> None:
    (prompt,) = suite.read(file(tmp_path, '{"prompt": "Hello"}')).prompts
    assert (prompt.id, prompt.category, prompt.turns) == ("1", "prompts", ("Hello",))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", "not JSON"),
        ("[1]", "not a JSON object"),
        ('{"category": "chat"}', "`turns` must be"),
        ('{"turns": []}', "`turns` must be"),
        ('{"turns": ["a", 3]}', "`turns` must be"),
        ('{"turns": [" "]}', "`turns` must be"),
        ('{"turns": ["a"], "category": 1.5}', "`category` must be"),
        ('{"turns": ["a"], "id": true}', "`id` must be"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    with pytest.raises(UsageError, match="line 3") as caught:
        suite.read(file(tmp_path, '{"turns": ["fine"]}', "", line))
    assert what in caught.value.message
    assert "turns" in caught.value.hint


def test_an_empty_suite_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is empty"):
        suite.read(file(tmp_path, "", "  "))
    with pytest.raises(UsageError, match="Cannot read"):
        suite.read(tmp_path / "none.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="UTF-8"):
        suite.read(tmp_path / "bytes.jsonl")


def test_two_prompts_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="two prompts are called 'a'"):
        suite.read(file(tmp_path, '{"id": "a", "prompt": "x"}', '{"id": "a", "prompt": "y"}'))


def test_categories_and_a_limit_choose() -> None:
    found = suite.read()
    chosen = suite.chosen(found, ("reasoning", "chat"), 2)
    assert [prompt.id for prompt in chosen] == ["chat-1", "chat-2", "reasoning-1", "reasoning-2"]
    assert suite.chosen(found) == found.prompts
    with pytest.raises(UnknownName, match="raesoning"):
        suite.chosen(found, ("raesoning",))
