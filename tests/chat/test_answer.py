"""An answer folds its rounds as they come, and the sums are those of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.chat.answer import Answer
from localspec.spec.stats import Stats, fold, segments
from localspec.spec.types import Round
from tests.chat.test_export import ROUNDS


def rounded(stats: Stats) -> Stats:
    times = {name: round(getattr(stats, name), 9) for name in ("draft_s", "verify_s", "sample_s", "total_s")}
    return replace(stats, **times)


@pytest.mark.parametrize("step", [1, 2, 3, len(ROUNDS)])
def test_figures_asked_for_in_between_add_up(step: int) -> None:
    answer = Answer("off")
    for start in range(0, len(ROUNDS), step):
        answer.extend(tuple(ROUNDS[start : start + step]), ())
        assert rounded(answer.stats) == rounded(fold(ROUNDS[: start + step]))
    assert [run.method for run in answer.segments] == ["off", "lookup"]
    assert [rounded(run.stats) for run in answer.segments] == [rounded(run.stats) for run in segments(ROUNDS)]


def test_a_method_that_comes_back_begins_a_new_segment() -> None:
    rounds: list[Round] = [*ROUNDS[:2], *ROUNDS[4:6], *ROUNDS[:2]]
    answer = Answer("off")
    for made in rounds:
        answer.extend((made,), ())
        assert answer.stats.rounds == len(answer.rounds)
    assert [run.method for run in answer.segments] == ["off", "lookup", "off"]


def test_answers_are_equal_whether_or_not_their_figures_were_asked_for() -> None:
    one, two = Answer("off", list(ROUNDS)), Answer("off", list(ROUNDS))
    assert one.stats.rounds == len(ROUNDS)
    assert one == two
