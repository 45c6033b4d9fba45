"""`run --json-schema` and `run --grammar`: files, refusals and the answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localspec import settle
from localspec.errors import UsageError
from tests.test_run import home, localspec, run

__all__ = ["home"]
SCHEMA = (
    '{"type": "object", "properties": {"ok": {"type": "boolean"}, "n": {"type": "integer"}}, "required": ["ok"]}'
)


def test_the_answer_is_json_of_the_schema(home: dict[str, str], noise: str, tmp_path: Path) -> None:
    file = tmp_path / "schema.json"
    file.write_text(SCHEMA)
    result = run(home, noise, "hello", "--json-schema", str(file), "--seed", "3", "--max-tokens", "200")
    assert result.returncode == 0, result.stderr
    assert isinstance(json.loads(result.stdout)["ok"], bool)


def test_the_answer_follows_the_grammar_and_the_report_has_it(
    home: dict[str, str], noise: str, tmp_path: Path
) -> None:
    file = tmp_path / "yes.gbnf"
    file.write_text('root ::= "yes" | "no"\n')
    answer = json.loads(run(home, noise, "hello", "--grammar", str(file), "--json").stdout)
    assert answer["text"] in ("yes", "no")
    assert answer["finish_reason"] == "stop"
    assert answer["sampling"]["grammar"] == file.read_text()
    free = json.loads(run(home, noise, "hello", "--max-tokens", "2", "--json").stdout)
    assert free["sampling"]["grammar"] is None


@pytest.mark.parametrize(
    ("flag", "content", "words"),
    [
        ("--grammar", 'root ::= "a"\n\nb = "c"\n', "line 3"),
        ("--grammar", 'root ::= "a"{3,2}', "line 1"),
        ("--json-schema", '{"type": "string", "pattern": "a+"}', "'pattern'"),
        ("--json-schema", '{"type":\n', "line 2: this is no JSON"),
    ],
)
def test_a_file_that_can_not_be_used_is_refused_by_name(
    flag: str, content: str, words: str, tmp_path: Path
) -> None:
    file = tmp_path / "wanted.txt"
    file.write_text(content)
    with pytest.raises(UsageError) as refused:
        given(flag, file)
    assert refused.value.message.startswith(f"{file}, ")
    assert words in refused.value.message
    assert refused.value.hint


@pytest.mark.parametrize("flag", ["--grammar", "--json-schema"])
def test_files_that_can_not_be_read_are_refused(flag: str, tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for file, words in ((tmp_path / "nowhere", "No such file"), (tmp_path, "directory"), (binary, "UTF-8")):
        with pytest.raises(UsageError) as refused:
            given(flag, file)
        assert str(file) in refused.value.message and words in refused.value.message


def given(flag: str, file: Path) -> str | None:
    return settle.grammar(str(file), None) if flag == "--json-schema" else settle.grammar(None, str(file))


def test_one_of_the_two_is_enough() -> None:
    with pytest.raises(UsageError, match="--json-schema and --grammar"):
        settle.grammar("a", "b")


def test_a_refusal_comes_before_the_model_and_leaves_standard_output_alone(
    home: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "bad.gbnf"
    file.write_text("root ::= [a")
    result = localspec(home, "run", "hello", "--target", "no-such-model.gguf", "--grammar", str(file))
    assert result.returncode == 2
    assert (
        result.stderr.splitlines()[0] == f"localspec: {file}, line 1: this character class has no closing bracket."
    )
    assert "no-such-model" not in result.stderr
    assert result.stdout == ""
