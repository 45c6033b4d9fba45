"""What scripts/bench_rpc.py makes of its samples; the models and the network are real ones when it is run."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from localspec.spec.stats import Stats

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")  # it sets this itself, and a test must not leave it behind
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield importlib.import_module("bench_rpc")
    for name in ("bench_rpc", "bench_drafters"):
        sys.modules.pop(name, None)


def rows(bench: Any, gains: dict[float, float], *, same: bool = True) -> list[dict[str, Any]]:
    """Plain decoding has 10 tokens a second at each delay, `auto` so many times as much; half of its rounds draft."""
    samples = {}
    for delay, gain in gains.items():
        for prompt in bench.ASKED:
            plain, auto = (
                Stats(rounds=10, emitted=10, total_s=1),
                Stats(rounds=4, emitted=10, drafts=2, total_s=1 / gain),
            )
            stalled = Stats(rounds=10, emitted=10, total_s=50)
            samples[delay, prompt, "off"] = [bench.Sample(stats, same) for stats in (plain, stalled, plain)]
            samples[delay, prompt, "auto"] = [bench.Sample(auto, True)]
    return list(bench.rows(samples, {delay: {2: 1.5} for delay in gains}))


def test_a_row_has_the_gain_over_medians_and_the_share_of_rounds_that_drafted(bench: Any) -> None:
    near, far = rows(bench, {0.0: 1.0, 10.0: 1.5})
    assert (near["off"], far["auto"]) == (pytest.approx(10), pytest.approx(15))
    assert far["gain"] == far["worst"] == pytest.approx(1.5)
    assert far["drafted"] == 0.5 and far["mean_acceptance_length"] == 2.5
    assert any("10 ms" in line and "1.50x" in line and "50 %" in line for line in bench.table([near, far]))


@pytest.mark.parametrize(
    ("gains", "same", "reached"),
    [
        ({0.0: 0.981, 2.0: 1.1, 10.0: 1.2}, True, [True, True, True]),
        ({0.0: 0.97, 2.0: 1.1, 10.0: 1.2}, True, [False, True, True]),
        ({0.0: 1.0, 2.0: 1.2, 10.0: 1.1}, True, [True, False, True]),
        ({0.0: 1.0, 2.0: 1.1, 10.0: 1.2}, False, [True, True, False]),
    ],
)
def test_each_target_is_judged(bench: Any, gains: dict[float, float], same: bool, reached: list[bool]) -> None:
    assert list(bench.verdicts(rows(bench, gains, same=same)).values()) == reached
