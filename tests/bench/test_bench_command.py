"""`localspec bench` as people call it: the real program on a tiny model."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.bench.stand_in import StandIn, serving
from tests.conftest import Models
from tests.test_run import PROGRAM, home, localspec

__all__ = ["home"]
QUICK = ("--threads", "1", "--n-ctx", "1024", "--max-tokens", "12", "--category", "chat", "--limit", "2")


def bench(home: dict[str, str], path: str, *arguments: str) -> Any:
    return localspec(home, "bench", "--target", path, *QUICK, *arguments)


def test_the_report_has_every_variant_and_the_same_text(
    home: dict[str, str], models: Models, tmp_path: Path
) -> None:
    flags = ("--methods", "lookup,suffix", "--draft-lengths", "auto,2", "--temperatures", "0,0.8", "--repeats", "2")
    result = bench(home, models("noise_q8"), *flags, "--report", str(tmp_path / "r"))
    assert result.returncode == 0, result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 80
    assert "Temperature 0: the text of plain decoding in every answer" in result.stdout
    assert "40 of 40" not in result.stdout  # progress is narration
    assert "left" in result.stderr and "wrote " in result.stderr
    found = json.loads((tmp_path / "r" / "report.json").read_text("utf-8"))
    labels = [row["label"] for row in found["variants"]]
    assert len(labels) == 10 and labels[0] == "off T=0" and "suffix k=2 T=0.8" in labels
    assert found["complete"] and len(found["samples"]) == 10 * 2 * 2
    assert {row["reused_tokens"] for row in found["samples"]} == {0}  # caches are empty before each answer
    assert len({row["prompt_tokens"] for row in found["samples"] if row["prompt"] == "chat-1"}) == 1
    assert {row["equal"] == row["compared"] == 4 for row in found["identity"]} == {True}
    assert [row["variant"] for row in found["identity"]] == [name for name in labels[1:] if name.endswith("T=0")]
    (model,) = found["environment"]["models"]
    assert model["file"] == "noise_q8.gguf" and len(model["fingerprint"]) >= 32
    assert str(tmp_path) not in json.dumps(found)
    for row in found["samples"]:
        if row["rounds"] is not None:
            assert row["tokens"] == row["accepted"] + row["rounds"] - row["cut"]


def test_two_runs_with_the_same_seed_say_the_same(home: dict[str, str], models: Models, tmp_path: Path) -> None:
    for name in ("a", "b"):
        result = bench(
            home,
            models("noise_q8"),
            "--methods",
            "lookup",
            "--temperature",
            "0.8",
            "--json",
            f"{tmp_path}/{name}.json",
        )
        assert result.returncode == 0, result.stderr
    compared = localspec(home, "bench", "--compare", f"{tmp_path}/a.json", f"{tmp_path}/b.json")
    assert compared.returncode == 0, compared.stderr
    rows = [line for line in compared.stdout.splitlines() if line.startswith(("off", "lookup"))]
    assert len(rows) == 2 and all("2/2" in row for row in rows)


def test_another_cache_type_is_a_load_of_its_own(home: dict[str, str], models: Models, tmp_path: Path) -> None:
    flags = ("--attention", "on/q8_0,off/f16", "--methods", "off", "--json", str(tmp_path / "a.json"))
    result = bench(home, models("noise_q8"), *flags, "--repeats", "2")
    assert result.returncode == 0, result.stderr
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert [load["label"] for load in found["loads"]] == ["fa on q8_0", "fa off f16"]
    assert "cache f16/f16" in found["loads"][1]["settings"]
    assert [row["baseline"] for row in found["variants"]] == ["off fa on q8_0"] * 2


def test_the_conversation_of_a_prompt_is_the_same_for_all(
    home: dict[str, str], models: Models, tmp_path: Path
) -> None:
    suite = tmp_path / "mine.jsonl"
    suite.write_text('{"question_id": 81, "category": "chat", "turns": ["abcabcabc", "again"]}\n')
    flags = ("--suite", str(suite), "--methods", "lookup", "--temperature", "1.0", "--json", f"{tmp_path}/a.json")
    result = bench(home, models("noise_q8"), *flags)
    assert result.returncode == 0, result.stderr
    samples = json.loads((tmp_path / "a.json").read_text("utf-8"))["samples"]
    assert [(row["variant"], row["turn"]) for row in samples] == [
        *(("off", 1), ("lookup", 1), ("off", 2), ("lookup", 2)),
    ]
    assert samples[2]["prompt_tokens"] == samples[3]["prompt_tokens"] > samples[0]["prompt_tokens"]


def test_a_prompt_longer_than_the_context_is_skipped(home: dict[str, str], models: Models, tmp_path: Path) -> None:
    suite = tmp_path / "mine.jsonl"
    suite.write_text(json.dumps({"id": "long", "prompt": "x" * 3000}) + '\n{"id": "short", "prompt": "abc"}\n')
    flags = ("--threads", "1", "--n-ctx", "256", "--max-tokens", "8", "--methods", "lookup")
    result = localspec(home, "bench", "--target", models("noise_q8"), "--suite", str(suite), *flags)
    assert result.returncode == 0, result.stderr
    assert "long is skipped. The prompt has 3,0" in result.stderr
    assert "Skipped: 1 (long)" in result.stdout


def test_a_peer_stands_beside(home: dict[str, str], models: Models, tmp_path: Path) -> None:
    with serving(StandIn()) as site:
        result = bench(
            home, models("noise_q8"), "--methods", "off", "--peer-url", site.url, "--json", str(tmp_path / "a.json")
        )
    assert result.returncode == 0, result.stderr
    assert site.url in result.stdout
    assert "its chat template is not the same" in result.stderr.replace("\n", " ")
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert [row["kind"] for row in found["variants"]] == ["localspec", "openai"]
    assert {row["seed"] for row in site.asked if row["max_tokens"] == 12} == {1, 2}


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--methods", "lookpu"), "'lookup'"),
        (("--methods", "draft"), "Method draft can't be measured: no draft model is loaded"),
        (("--methods", "off,,lookup"), "--methods is"),
        (("--draft-lengths", "2,many"), "--draft-lengths has 'many'"),
        (("--draft-lengths", "500"), "at most"),
        (("--temperatures", "cold"), "--temperatures has 'cold'"),
        (("--temperatures", "-1"), "--temperature is -1"),
        (("--temperatures", "0", "--temperature", "1"), "Give one of them"),
        (("--verifiers", "none"), "none"),
        (("--attention", "maybe"), "--attention has 'maybe'"),
        (("--category", "chta"), "'chat'"),
        (("--suite", "no-such-file"), "Cannot read the suite"),
        (("--peer", "llama-server=/no/such/program"), "is no program"),
        (("--peer-url", "http://127.0.0.1:9"), "can't be read"),
        (("--report", "/dev/null/x"), "A report can't be written"),
        (("--yes",), "--yes answers the question of --sweep"),
        (("--compare", "no-a", "no-b"), "Cannot read no-a"),
    ],
)
def test_wrong_requests_are_one_sentence(
    home: dict[str, str], models: Models, flags: tuple[str, ...], words: str
) -> None:
    result = bench(home, models("noise_q8"), *flags)
    assert result.returncode in (1, 2), result.stderr
    assert words in result.stderr and "Traceback" not in result.stderr
    assert result.stdout == ""


def test_an_empty_suite_is_refused(home: dict[str, str], models: Models, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("\n")
    result = bench(home, models("noise_q8"), "--suite", str(tmp_path / "empty.jsonl"))
    assert result.returncode == 2 and "is empty" in result.stderr


def test_ctrl_c_reports_what_is_done(home: dict[str, str], models: Models, tmp_path: Path) -> None:
    words = ("--target", models("noise_q8"), *QUICK, "--repeats", "40", "--json", str(tmp_path / "a.json"))
    process = subprocess.Popen(
        [*PROGRAM, "bench", *words, "--max-tokens", "200"],
        env=home, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    for line in process.stderr:
        if " answers, " in line and "left" in line:
            break
    os.kill(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "STOPPED before the end" in out and "tok/s" in out
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    assert not found["complete"] and found["samples"]


def test_the_sweep_ends_with_a_proposal_or_none(home: dict[str, str], models: Models) -> None:
    result = bench(home, models("noise_q8"), "--sweep")
    assert result.returncode == 0, result.stderr
    assert "flash attention and cache, tok/s" in result.stdout and "fa off f16" in result.stdout
    assert "as any that were tried" in result.stdout or "Nothing was written; with --yes" in result.stdout
    assert not list(Path(home["HOME"]).rglob("config.toml"))
