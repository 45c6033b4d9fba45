"""How fast it goes: the rate over the last seconds, at most ten reports a second, lines where there is no terminal."""

from __future__ import annotations

import io
from pathlib import Path

from localspec.hub import Plan, PlannedFile, Progress
from localspec.hub.meter import Meter
from localspec.shelf.progress import Lines

FILE = PlannedFile("target", "a/b", "x.gguf", "main", "c" * 40, 100_000_000, "e" * 64, "e" * 64, here=False)
DRAFT = PlannedFile("draft", "a/b", "y.gguf", "main", "c" * 40, 1_000_000, "f" * 64, "f" * 64, here=True)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def measured(*steps: tuple[float, int]) -> list[Progress]:
    """The reports of a download that has so many bytes at such times."""
    clock, seen = Clock(), []
    meter = Meter(FILE, seen.append, clock)
    for clock.now, done in steps:
        meter.at(done)
    return seen


def test_at_most_ten_reports_a_second() -> None:
    assert 99 <= len(measured(*((i / 1000, i) for i in range(10_000)))) <= 101


def test_the_end_is_always_reported() -> None:
    assert measured((0, 0), (0.01, FILE.size))[-1].done == FILE.size


def test_at_first_there_is_no_rate() -> None:
    assert (measured((0, 5))[0].rate, measured((0, 5))[0].left_s) == (None, None)


def test_the_rate_is_that_of_the_last_seconds() -> None:
    slow = [(float(i), i * 1_000) for i in range(20)]
    fast = [(20.0 + i, 20_000 + i * 1_000_000) for i in range(8)]
    last = measured(*slow, *fast)[-1]
    assert last.rate == 1_000_000
    assert last.left_s == (FILE.size - last.done) / 1_000_000


def test_bytes_that_were_here_before_are_no_speed() -> None:
    assert measured((0, 50_000_000), (1, 50_001_000))[-1].rate == 1_000


def test_a_restart_does_not_run_backwards() -> None:
    seen = measured((0, 0), (1, 1_000_000), (2, 0), (3, 500_000))
    assert seen[-1].rate == 500_000


class TestLines:
    def written(self, *steps: tuple[float, Progress]) -> list[str]:
        clock, out = Clock(), io.StringIO()
        lines = Lines(Plan((FILE, DRAFT), Path()), out, clock)
        for clock.now, progress in steps:
            lines(progress)
        return out.getvalue().splitlines()

    def test_one_in_a_few_seconds_and_the_last(self) -> None:
        steps = [(i / 10, Progress("target", "x.gguf", i * 1_000_000, FILE.size, 1e7, 3.0)) for i in range(101)]
        lines = self.written(*steps)
        assert len(lines) == 3
        assert lines[1] == "target  50.0 MB of 100.0 MB, 10.0 MB/s, 3 s left"
        assert lines[-1] == "target  100.0 MB of 100.0 MB, complete"

    def test_what_is_here_needs_no_line(self) -> None:
        assert self.written((0, Progress("draft", "y.gguf", DRAFT.size, DRAFT.size))) == []

    def test_why_nothing_moves(self) -> None:
        progress = Progress("target", "x.gguf", 0, FILE.size, note="another program is fetching it")
        assert self.written((0, progress)) == ["target  0.0 MB of 100.0 MB, another program is fetching it"]
