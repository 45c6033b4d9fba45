"""The line with the time left, on a terminal and without one."""

from __future__ import annotations

import io
import re

import pytest

from localspec.bench.watching import Watching, duration
from tests.bench.scripted import Clock


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_time_left_is_that_of_the_answers_so_far() -> None:
    clock, stream = Clock(), io.StringIO()
    watch = Watching(stream, clock)
    for done in range(1, 21):
        watch.progress(done, 20)
        clock.now += 6
    lines = stream.getvalue().splitlines()
    assert lines[0] == "localspec: measuring, 20 answers"
    # The clock began when the first answer was done: it had the loading to pay.
    assert lines[1:3] == [
        "localspec: 2 of 20 answers, 1 min 48 s left",
        "localspec: 4 of 20 answers, 1 min 36 s left",
    ]
    assert len(lines) == 11


def test_on_a_terminal_one_line_is_drawn_over_and_ends_empty() -> None:
    clock, stream = Clock(), Screen()
    watch = Watching(stream, clock)
    for done in range(1, 4):
        watch.progress(done, 4)
        clock.now += 10
    watch.tell("something")
    watch.progress(4, 4)
    shown = [part.strip() for part in re.split(r"[\r\n]", stream.getvalue())]
    assert "[############............] 2 of 4 answers, 20 s left" in shown
    assert "localspec: something" in shown
    assert shown[-1] == ""
    assert max(map(len, shown)) <= 80


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (59.4, "59 s"), (60, "1 min 00 s"), (3599, "59 min 59 s"), (3900, "1 h 05 min")],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
