"""`localspec verify` as people and scripts call it."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from localspec import proving
from localspec.engine.identity import NONE, Difference
from localspec.engine.messages import Load
from localspec.model import ModelSpec
from localspec.spec.verify import VERIFIERS
from tests.conftest import Models
from tests.spec.test_wrong_rules import accept_everything
from tests.test_run import home, localspec

__all__ = ["home"]
MODEL = ("--threads", "1", "--n-ctx", "1024")


def verify(home: dict[str, str], path: str, *arguments: str) -> Any:
    return localspec(home, "verify", "--quick", "--target", path, *MODEL, *arguments)


def test_the_table_has_a_verdict_for_every_method(home: dict[str, str], models: Models) -> None:
    result = verify(home, models("noise_q8"))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    rows = {line.split()[0]: line for line in lines if line.endswith(" PASS")}
    assert {"off", "lookup", "suffix", "auto"} <= rows.keys()
    assert all("2 of 2 equal" in row and "smallest p" in row for row in rows.values())
    assert "bit-identical up to 32 rows" in lines[1]
    assert lines[-1].startswith("PASS: every method")
    assert any(line.startswith("draft was not tried: ") for line in lines)
    assert "plain decoding" in result.stderr and "PASS" not in result.stderr


def test_json_has_everything(home: dict[str, str], models: Models) -> None:
    result = verify(home, models("noise_q8"), "--json", "--method", "ngram", "--verifier", "token")
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert set(found) == {
        *("schema", "passed", "seconds", "strict", "verifier", "numerics", "limit", "methods", "unavailable"),
        *("environment", "lossy"),
    }
    assert (found["schema"], found["passed"], found["strict"]) == ("localspec.verify/1", True, False)
    assert found["verifier"] == "token"
    assert found["numerics"]["widest"] == 32
    (method,) = found["methods"]
    assert (method["method"], method["passed"], method["differences"]) == ("lookup", True, [])
    assert method["drafted"] > 0
    assert found["limit"] == pytest.approx(1e-4 / len(method["trials"]))
    assert all(set(trial) == {"setting", "what", "draws", "p"} for trial in method["trials"])
    assert {trial["setting"] for trial in method["trials"]} == {
        *("T=0.7", "T=0.7, truncated", "T=1", "T=1, truncated"),
    }
    assert found["environment"]["models"][0]["role"] == "target"


@pytest.mark.parametrize("flags", [("--method", "lookpu"), ("--numerics", "exact"), ("--verifier", "none")])
def test_wrong_flags_are_refused_before_a_model_is_loaded(home: dict[str, str], flags: tuple[str, str]) -> None:
    result = verify(home, "no-such-file.gguf", *flags)
    assert result.returncode == 2
    assert flags[1] in result.stderr


def here(models: Models, *, as_json: bool = False, numerics: str = "fast") -> int:
    spec = ModelSpec(models("noise_q8"), threads=1, n_ctx=1024)
    load = Load(spec, numerics=numerics)
    return proving.verify(
        load, "noise", methods=("lookup",), draft_tokens=None, verifier="block", quick=True, as_json=as_json
    )


def test_a_wrong_rule_fails_with_its_reasons(
    models: Models, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(VERIFIERS, "block", accept_everything(VERIFIERS["block"]))
    assert here(models) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("lookup") and line.endswith("FAIL") for line in lines)
    assert any("instead of" in line and line.endswith(": BUG") for line in lines)
    assert any("token 1: p " in line and "limit" in line for line in lines)
    assert lines[-1].startswith("FAIL: ")
    assert here(models, as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False
    assert {difference["verdict"] for difference in found["methods"][0]["differences"]} == {"BUG"}


def test_a_text_that_does_not_end_is_a_bug_without_figures(
    models: Models, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    endless = Difference(prompt=2, position=0, plain=NONE, other=3 + ord("x"), gap=inf, noise=0.0, rows=0)
    monkeypatch.setattr("localspec.engine.proof.compare", lambda *_: endless)
    assert here(models) == 1
    assert "prompt 2, token 1: 'x' instead of the end: BUG" in capsys.readouterr().out
    assert here(models, as_json=True) == 1
    found = json.loads(capsys.readouterr().out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["methods"][0]["differences"][0]["gap"] is None


def test_lossy_acceptance_gets_no_verdict_but_a_measure(home: dict[str, str], models: Models) -> None:
    result = verify(home, models("noise_q8"), "--method", "lookup", "--lossy", "relaxed=0.01")
    assert result.returncode == 1
    lines = result.stdout.splitlines()
    assert any(line.startswith("lookup") and line.endswith(" LOSSY") for line in lines)
    assert lines[-1].startswith("LOSSY: relaxed=0.01 changes what the target says: ")
    assert "PASS" not in result.stdout and "BUG" not in result.stdout


def test_a_near_tie_is_shown_and_passes_but_not_in_strict_mode(
    models: Models, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tie = Difference(prompt=1, position=4, plain=3 + ord("a"), other=NONE, gap=0.02, noise=0.4, rows=9)
    monkeypatch.setattr("localspec.engine.proof.compare", lambda *_: tie)
    assert here(models) == 0
    shown = capsys.readouterr().out
    assert "0 of 2 equal, 2 near ties" in shown
    assert (
        "prompt 1, token 5: the end instead of 'a'; gap of the logits 0.02, noise 0.4 at 9 rows: near tie" in shown
    )
    assert "near ties only" in shown
    assert here(models, numerics="strict") == 1
