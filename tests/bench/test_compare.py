"""Two reports: real changes are found, noise and a slower day are not, and what is no report is a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec.bench import compare
from localspec.bench.report import Saved, read
from localspec.bench.report import document as whole
from localspec.bench.report import text as written
from localspec.errors import UsageError
from tests.bench.test_report import report


def saved(path: Path, *, day: float = 1.0, gain: float = 1.0, seed: int = 0, **changed: Any) -> Saved:
    """A report of `off` and `lookup`, on a day that slows everything, where lookup gains more than it did."""
    rng = np.random.default_rng(seed)
    found = whole(report())
    for sample in found["samples"]:
        factor = day / (gain if sample["variant"] == "lookup" else 1.0) * float(np.exp(0.01 * rng.normal()))
        sample["decode_s"] *= factor
    for key, value in changed.items():
        found["environment"][key] = value
    path.write_text(written(found), "utf-8")
    return read(path)


def verdicts(before: Saved, after: Saved) -> dict[str, str]:
    return {change.variant: change.verdict for change in compare.changes(before, after)}


def test_a_slower_day_is_no_change_of_the_speed_up(tmp_path: Path) -> None:
    a, b = saved(tmp_path / "a.json"), saved(tmp_path / "b.json", day=1.5, seed=1)
    assert verdicts(a, b)["lookup"] == "noise"
    off, lookup = compare.changes(a, b)
    assert off.speed.value == pytest.approx(1 / 1.5, rel=0.02) and off.gain is None
    assert off.verdict == "slower"
    assert lookup.gain is not None and lookup.gain.value == pytest.approx(1.0, rel=0.03)


@pytest.mark.parametrize(("gain", "verdict"), [(1.3, "faster"), (0.8, "slower"), (1.003, "noise")])
def test_a_real_change_is_found_also_on_a_slower_day(tmp_path: Path, gain: float, verdict: str) -> None:
    a, b = saved(tmp_path / "a.json"), saved(tmp_path / "b.json", day=1.5, gain=gain, seed=1)
    assert verdicts(a, b)["lookup"] == verdict
    lookup = compare.changes(a, b)[1]
    assert lookup.gain is not None and lookup.gain.value == pytest.approx(gain, rel=0.03)


def test_intervals_are_wider_where_there_are_more_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, levels = saved(tmp_path / "a.json"), saved(tmp_path / "b.json"), list[float]()
    real = compare.statistics.speedup
    monkeypatch.setattr(
        compare.statistics, "speedup", lambda a, b, level: (levels.append(level), real(a, b, level))[1]
    )
    compare.changes(a, b)
    assert levels == pytest.approx([0.975, 0.975])


def test_the_page_says_what_is_not_the_same_and_fits_80_columns(tmp_path: Path) -> None:
    models = [{"file": "model.gguf", "fingerprint": "a" * 64}]
    a, b = saved(tmp_path / "a.json"), saved(tmp_path / "b.json", cpu="y", models=models)
    lines = list(compare.lines(a, b))
    assert max(map(len, lines)) <= 80
    assert "  cpu: x -> y" in lines
    assert any(line.startswith("  models 1, fingerprint: fff") for line in lines)
    assert any(line.startswith("lookup") and "6/6" in line for line in lines)
    same = list(compare.lines(a, a))
    assert "Settings and environment are the same." in same


def test_another_text_is_counted(tmp_path: Path) -> None:
    a = saved(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    found["samples"][0]["digest"] = "0" * 16
    (tmp_path / "b.json").write_text(json.dumps(found), "utf-8")
    off = compare.changes(a, read(tmp_path / "b.json"))[0]
    assert (off.same_text, off.compared) == (5, 6)


def test_nothing_in_common_is_said(tmp_path: Path) -> None:
    a = saved(tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text("utf-8"))
    for sample in found["samples"]:
        sample["prompt"] += " of mine"
    (tmp_path / "b.json").write_text(json.dumps(found), "utf-8")
    assert any("nothing to compare" in line for line in compare.lines(a, read(tmp_path / "b.json")))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "is not JSON"),
        ("[]", "is no report"),
        ('{"schema": "localspec.run/1"}', "'localspec.run/1'"),
        ('{"schema": "localspec.bench/1"}', "is a damaged report"),
        ('{"schema": "localspec.bench/1", "samples": [{"variant": 1}], "variants": []}', "is a damaged report"),
    ],
)
def test_what_is_no_report_is_a_sentence(tmp_path: Path, content: str, what: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert what in caught.value.message and "--json" in caught.value.hint
    with pytest.raises(UsageError, match="Cannot read"):
        read(tmp_path / "none.json")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not JSON"):
        read(path)
