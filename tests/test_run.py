"""`localspec run` as people and scripts call it: the real program, real files, exit codes and streams."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ggufs
from tests.conftest import Models
from tests.engine.test_apart import killer
from tests.terminal import Terminal

PROGRAM = (sys.executable, "-c", "from localspec.cli import main; main()")


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own, so that nobody's config decides a test."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCALSPEC_", "XDG_"))}
    return kept | {"HOME": str(tmp_path)}


def localspec(home: dict[str, str], *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments], env=home, input=stdin, capture_output=True, text=True, timeout=110, check=False
    )


def run(home: dict[str, str], path: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return localspec(home, "run", "--target", path, "--threads", "1", *arguments, stdin=stdin)


def test_json_has_the_whole_contract(home: dict[str, str], demo_model: str) -> None:
    arguments = ("--json", "--temperature", "0", "--max-tokens", "40", "--target", demo_model)
    result = localspec(home, "run", "Explain what a hash table is.", *arguments)
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    assert answer["schema"] == "localspec.run/1"
    assert set(answer) == {
        *("schema", "text", "token_ids", "finish_reason", "prompt_tokens", "completion_tokens", "timings"),
        *("speculation", "sampling", "environment"),
    }
    assert set(answer["timings"]) == {
        *("ttft_s", "prefill_s", "decode_s", "total_s", "tokens_per_second", "inter_token_latency_s"),
    }
    assert set(answer["timings"]["inter_token_latency_s"]) == {"p50", "p95"}
    assert set(answer["speculation"]) >= {
        *("method", "verifier", "rounds", "drafted", "tested", "accepted", "acceptance_rate"),
        *("mean_acceptance_length", "per_position", "draft_s", "verify_s", "sample_s", "by_drafter"),
    }
    assert set(answer["environment"]) == {
        *("localspec", "llama_cpp_python", "llama_cpp", "backend", "devices", "cpu", "threads", "os"),
        *("peak_memory_bytes", "models", "numerics"),
    }
    assert set(answer["environment"]["models"][0]) >= {"role", "path", "bytes", "fingerprint"}
    assert answer["sampling"]["temperature"] == 0
    assert isinstance(answer["sampling"]["seed"], int)
    assert answer["finish_reason"] in ("length", "stop")
    assert answer["completion_tokens"] == len(answer["token_ids"])
    figures = answer["speculation"]
    assert figures["emitted"] == figures["accepted"] + figures["rounds"] - figures["cut"]
    assert "hash table" in answer["text"].lower()


def test_logprobs_of_accepted_tokens_are_those_of_plain_decoding(home: dict[str, str], noise: str) -> None:
    flags = ("--json", "--logprobs", "3", "--temperature", "0", "--max-tokens", "40")
    plain, drafted = (
        json.loads(run(home, noise, "abcabcabc" * 5, *flags, "--method", method).stdout)
        for method in ("off", "lookup")
    )
    assert drafted["logprobs"] == plain["logprobs"]
    assert [each["id"] for each in plain["logprobs"]] == plain["token_ids"]
    assert all(each["logprob"] < 0 and len(each["top"]) == 3 for each in plain["logprobs"])


@pytest.mark.parametrize("limit", range(1, 6))
def test_limit_is_exact_with_a_longer_draft(home: dict[str, str], noise: str, limit: int) -> None:
    text = "abcabcabcabcabcabc"
    result = run(
        home, noise, text, "--json", "--draft-tokens", "8", "--max-tokens", str(limit), "--temperature", "0"
    )
    assert json.loads(result.stdout)["completion_tokens"] == limit


def test_plain_output_is_the_text_alone(home: dict[str, str], models: Models) -> None:
    result = run(home, models("emoji"), "--raw", "-", "--max-tokens", "8", stdin="\x00")
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""


def test_prompt_comes_from_standard_input(home: dict[str, str], noise: str) -> None:
    piped = run(home, noise, "-", "--max-tokens", "12", "--seed", "3", stdin="hello")
    given = run(home, noise, "hello", "--max-tokens", "12", "--seed", "3")
    assert piped.stdout == given.stdout
    assert piped.stdout.strip()


def test_stop_string_ends_the_text_before_it(home: dict[str, str], noise: str) -> None:
    whole = json.loads(run(home, noise, "abc", "--json", "--max-tokens", "40", "--seed", "1").stdout)["text"]
    stop = whole[5:8]
    cut = json.loads(run(home, noise, "abc", "--json", "--max-tokens", "40", "--seed", "1", "--stop", stop).stdout)
    assert cut["finish_reason"] == "stop_string"
    assert cut["text"] == whole[: whole.index(stop)]


def test_raw_and_templated_prompts_differ(home: dict[str, str], noise: str) -> None:
    raw = json.loads(run(home, noise, "abc", "--json", "--raw", "--max-tokens", "1").stdout)
    templated = json.loads(run(home, noise, "abc", "--json", "--max-tokens", "1").stdout)
    assert raw["prompt_tokens"] == 3 < templated["prompt_tokens"]


WRONG = {
    "unknown pair": (("--pair", "dmeo"), 2, "demo"),
    "unknown method": (("--method", "lokup"), 2, "lookup"),
    "unknown verifier": (("--verifier", "blok"), 2, "block"),
    "negative temperature": (("--temperature", "-1"), 2, "--temperature"),
    "temperature that is no number": (("--temperature", "nan"), 2, "--temperature"),
    "top-p of zero": (("--top-p", "0"), 2, "--top-p"),
    "seed out of range": (("--seed", "-5"), 2, "--seed"),
    "bias that is no number": (("--logit-bias", "a=b"), 2, "--logit-bias"),
    "logprobs without json": (("--logprobs", "2"), 2, "--json"),
    "no tokens": (("--max-tokens", "0"), 2, "max"),
    "empty stop": (("--stop", ""), 2, "--stop"),
    "two models": (("--pair", "demo", "--target", "x.gguf"), 2, "--target"),
    "system without template": (("--raw", "--system", "x"), 2, "--raw"),
    "missing file": (("--target", "nowhere.gguf"), 1, "nowhere.gguf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage_is_a_sentence_a_hint_and_an_exit_code(home: dict[str, str], case: str) -> None:
    flags, code, word = WRONG[case]
    result = localspec(home, "run", "hello", *flags)
    assert result.returncode == code, result.stderr
    assert word in result.stderr
    assert "Traceback" not in result.stderr
    assert len(result.stderr.splitlines()) <= 3
    assert result.stdout == ""


@pytest.mark.parametrize("flag", [("--ban-token", "99999"), ("--logit-bias", "99999=1")])
def test_token_outside_the_vocabulary_is_refused_with_the_range(
    home: dict[str, str], noise: str, flag: tuple[str, str]
) -> None:
    result = run(home, noise, "hello", *flag)
    assert result.returncode == 2
    assert flag[0] in result.stderr
    assert "at most" in result.stderr


def test_context_larger_than_the_models_is_refused_with_both_numbers(home: dict[str, str], noise: str) -> None:
    result = run(home, noise, "hello", "--n-ctx", "9999")
    assert result.returncode == 2
    assert "9,999" in result.stderr
    assert "2,048" in result.stderr


def test_prompt_longer_than_the_context_is_refused_with_both_numbers(home: dict[str, str], noise: str) -> None:
    result = run(home, noise, "-", "--n-ctx", "256", stdin="word " * 20_000)
    assert result.returncode == 2
    assert "256" in result.stderr
    assert "Traceback" not in result.stderr


def test_closed_pipe_ends_quietly(home: dict[str, str], noise: str) -> None:
    command = [*PROGRAM, "run", "--target", noise, "--threads", "1", "hello", "--max-tokens", "400"]
    with subprocess.Popen(command, env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_broken_template_is_said_and_answered(home: dict[str, str], models: Models) -> None:
    result = run(home, models("noise_syntax_error"), "hello", "--max-tokens", "3")
    assert result.returncode == 0
    assert "ChatML" in result.stderr


def test_a_file_that_llama_cpp_does_not_survive_is_a_sentence(home: dict[str, str], tmp_path: Path) -> None:
    result = run(home, str(killer(tmp_path)), "hello")
    assert result.returncode == 1 and result.stdout == ""
    assert "killer.gguf: llama.cpp did not survive it" in result.stderr
    assert "Traceback" not in result.stderr and len(result.stderr.splitlines()) == 2


def test_a_terminal_obeys_nothing_that_a_model_writes(home: dict[str, str], tmp_path: Path) -> None:
    title = [3 + byte for byte in b"\x1b]0;a\x07"]
    model = ggufs.chain(tmp_path / "escapes.gguf", ggufs.one_way(260, *title, 2))
    program = ["run", "--raw", "a", "--target", str(model), "--threads", "1", "--temperature", "0"]
    shown = Terminal(program, tmp_path)
    try:
        shown.until("␛]0;a␇")
        shown.wait()
    finally:
        shown.close()
    piped = localspec(home, *program)
    assert piped.stdout == "\x1b]0;a\x07\n"
