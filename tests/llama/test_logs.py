"""From the lines of a native log to one sentence."""

from __future__ import annotations

import pytest

from localspec.llama import logs

INFO, WARN, ERROR, CONTINUED = 2, 3, 4, 5


def reason(*lines: tuple[int, str]) -> str:
    place = logs.mark()
    for level, text in lines:
        logs._record(level, text.encode(), None)
    return logs.failure("m.gguf", place, "9.9").reason


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("llama_model_load: error loading model: unknown model architecture: 'x'",
         "llama.cpp 9.9 does not know the architecture 'x'"),
        ("error loading model vocabulary: unknown pre-tokenizer type: 'y'",
         "llama.cpp 9.9 does not know the tokenizer 'y'"),
        ("llama_model_load: error loading model: missing tensor 'blk.0.attn_q.weight'",
         "its tensor 'blk.0.attn_q.weight' is missing"),
        ("done_getting_tensors: wrong number of tensors; expected 5, got 4",
         "it has 5 tensors where 4 were expected"),
        ("error loading model hyperparameters: key not found in model: llama.context_length",
         "its header lacks 'llama.context_length'"),
        ("ggml_gallocr_reserve_n: failed to allocate CUDA0 buffer of size 99", "there is not enough memory for it"),
        ("llama_init_from_model: failed to initialize the context: something new",
         "failed to initialize the context: something new"),
    ],
)  # fmt: skip
def test_known_lines_become_sentences(line: str, expected: str) -> None:
    assert reason((INFO, "loading\n"), (ERROR, line + "\n")) == expected


def test_the_cause_wins_over_its_consequences() -> None:
    assert "missing" in reason((ERROR, "failed to load model\n"), (ERROR, "missing tensor 'a'\n"))


def test_errors_win_over_warnings_and_warnings_over_nothing() -> None:
    assert reason((WARN, "x: old\n"), (ERROR, "x: broken\n")) == "broken"
    assert reason((INFO, "fine\n"), (WARN, "x: no such layers\n")) == "no such layers"
    assert reason((INFO, "fine\n")) == "llama.cpp gave no reason"


def test_only_lines_after_the_mark_count() -> None:
    reason((ERROR, "x: yesterday's\n"))
    assert reason((ERROR, "x: today's\n")) == "today's"


def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    place = logs.mark()
    for level, text in ((ERROR, b"half"), (CONTINUED, b" and half\n"), (CONTINUED, b"."), (INFO, b"\xff\n")):
        logs._record(level, text, None)
    assert [line.text for line in logs.since(place)] == ["half and half\n.", "\ufffd\n"]


def test_the_tail_skips_empty_lines() -> None:
    for i in range(30):
        logs._record(INFO, b"\n", None)
        logs._record(INFO, b"line %d\n" % i, None)
    assert logs.tail(n=3) == ("line 27", "line 28", "line 29")


def test_the_log_does_not_grow_for_ever() -> None:
    for _ in range(10_000):
        logs._record(INFO, b"again\n", None)
    assert len(logs.since(0)) < 5_000
