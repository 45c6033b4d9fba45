"""A trace holds everything that the views show, and a damaged one is named by its line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localspec.chat.answer import Answer
from localspec.chat.trace import Trace, check, free, header, lines, save, taken
from localspec.chat.trace_reading import TraceError, read
from localspec.errors import LocalspecError
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, LogProb
from tests.tui.scripted import ENVIRONMENT, finished, rounds

TEXT = "A [hash] table\u2028 stores pairs.\n\n```\x1b[2J``` שלום 漢字 \ud83d\ude00".encode(
    "utf-16", "surrogatepass"
).decode("utf-16")


def recorded(text: str = TEXT, *, reason: Finish | None = Finish.STOP, **more: Any) -> Trace:
    answer = Answer("lookup")
    for made, pieces in rounds(text, method="off") + rounds(text, method="lookup", seed=3):
        ghost = " not\nthis" if made.accepted < len(made.drafted) else ""
        p, q = (0.82,) * made.tested, (1.0,) * made.tested
        answer.extend((replace(made, limit=8, p=p, q=q),), (*pieces[:-1], replace(pieces[-1], ghost=ghost)))
    if reason:
        answer.end(finished(1, reason, tail="…"))
    settings = {"title": "SmolLM2", "draft_tokens": None, "verifier": "block", "sampling": Sampling(seed=7)}
    return taken(answer, header(answer, **settings | {"environment": ENVIRONMENT, "prompt": "Why?"} | more))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answer.jsonl"


def test_what_is_read_is_what_was_saved(path: Path) -> None:
    trace = recorded()
    save(trace, path)
    back = read(path)
    assert back.answer == trace.answer
    assert back.seconds == pytest.approx(trace.seconds, abs=1e-6)
    assert (back.header.prompt, back.header.method, back.header.draft_tokens) == ("Why?", "lookup", None)
    assert back.header.sampling["seed"] == 1234567, "the seed that was really used"
    assert list(path.parent.iterdir()) == [path], "nothing else is left"


def test_log_probabilities_are_kept(path: Path) -> None:
    trace = recorded()
    made = trace.answer.rounds[0]
    trace.answer.rounds[0] = replace(made, logprobs=(LogProb(5, -0.5, ((5, -0.5), (9, -2.0))),))
    trace.answer.names[9] = " other"
    save(trace, path)
    assert read(path).answer.rounds[0].logprobs == trace.answer.rounds[0].logprobs
    assert read(path).answer.names == {9: " other"}


def test_an_answer_that_broke_off_is_kept_as_such(path: Path) -> None:
    trace = recorded(reason=None)
    trace.answer.error = "killed"
    save(trace, path)
    assert read(path).answer.finish is None
    assert read(path).answer.error == "killed"


def test_a_line_each_and_times_from_the_asking_on() -> None:
    trace = recorded()
    first, *middle, last = map(json.loads, lines(trace))
    assert first["schema"] == "localspec.trace/1"
    assert len(middle) == len(trace.answer.rounds)
    assert middle[0]["t"] == pytest.approx(0.1 + trace.answer.rounds[0].total_s, abs=1e-6), (
        "after reading for 0.1 s"
    )
    assert [each["t"] for each in middle] == sorted(each["t"] for each in middle)
    assert last["finish"] == "stop"


def test_of_the_models_only_the_names_of_the_files_are_told() -> None:
    assert "/models/" not in "".join(lines(recorded()))
    assert '"path":"SmolLM2-135M-Instruct.Q4_1.gguf"' in next(lines(recorded()))


def test_the_prompt_may_stay_untold(path: Path) -> None:
    save(recorded(prompt=None), path)
    assert read(path).header.prompt is None


def changed(**values: Any) -> Callable[[str], str]:
    def change(line: str) -> str:
        plain = json.loads(line) | values
        return json.dumps({name: value for name, value in plain.items() if value != "GONE"})

    return change


@pytest.mark.parametrize(
    ("number", "change", "says"),
    [
        (1, lambda _: "", "no JSON object"),
        (1, changed(schema="localspec.trace/2"), "another version"),
        (1, changed(method="GONE"), '"method" is missing'),
        (1, changed(sampling=[1]), '"sampling" holds something'),
        (3, lambda line: line[:40], "no JSON object"),
        (3, lambda _: "[" * 100_000, "no JSON object"),
        (3, lambda _: "[1]", "no JSON object"),
        (3, changed(accepted="GONE"), '"accepted" is missing'),
        (3, changed(accepted=-1), "not a whole number"),
        (3, changed(accepted=True), "not a whole number"),
        (3, changed(accepted=99), "99 of"),
        (3, changed(total_s=float("nan")), "not a number"),
        (3, changed(verify_s="long"), "not a number"),
        (3, changed(emitted=[]), '"emitted" has 0 tokens'),
        (3, changed(emitted=5), '"emitted" is not a list'),
        (3, changed(pieces=[]), '"pieces" has 0 texts'),
        (3, changed(pieces=[5]), "no JSON object"),
        (3, changed(p=[0.5]), '"p" and "q"'),
        (3, changed(logprobs=[[5]]), "logprobs"),
        (3, changed(names=[[5]]), "names"),
        (3, changed(finish="bored"), '"finish" is "bored"'),
        (4, changed(t=0.0001), "a line before"),
        (3, changed(end=True), "only the last line"),
    ],
)
def test_a_damaged_line_is_named(path: Path, number: int, change: Callable[[str], str], says: str) -> None:
    rows = list(lines(recorded()))
    rows[number - 1] = change(rows[number - 1])
    path.write_text("\n".join(rows), encoding="utf-8")
    with pytest.raises(TraceError) as error:
        read(path)
    assert f"answer.jsonl, line {number}: " in error.value.message
    assert says in error.value.message


def test_a_trace_that_is_cut_off_says_where(path: Path) -> None:
    rows = list(lines(recorded()))
    path.write_text("\n".join(rows[:5]), encoding="utf-8")
    with pytest.raises(TraceError, match="line 5: it breaks off here"):
        read(path)
    path.write_text(rows[0], encoding="utf-8")
    with pytest.raises(TraceError, match="line 1: it breaks off here"):
        read(path)


@pytest.mark.parametrize("content", [b"", b"\n\n", b"GGUF\x03\x00\xff\xfe", b"hello"])
def test_other_files_are_no_traces(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(LocalspecError):
        read(path)


def test_a_file_that_is_not_there(path: Path) -> None:
    with pytest.raises(LocalspecError, match=r"Cannot read .*No such file"):
        read(path)


def test_where_a_trace_can_not_be_written(tmp_path: Path) -> None:
    for wrong in (tmp_path, tmp_path / "no" / "folder.jsonl"):
        with pytest.raises(LocalspecError, match="Cannot write the trace"):
            check(wrong)
        with pytest.raises(LocalspecError, match="Cannot write the trace"):
            save(recorded(), wrong)
    assert list(tmp_path.iterdir()) == []
    check(tmp_path / "fine.jsonl")


def test_a_name_that_no_file_has(tmp_path: Path) -> None:
    first = free(tmp_path, "a")
    first.touch()
    assert [first.name, free(tmp_path, "a").name] == ["a.trace.jsonl", "a-2.trace.jsonl"]
