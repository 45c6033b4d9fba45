"""Figures worked out by hand for four rounds."""

from __future__ import annotations

from typing import Any

import pytest

from localspec.spec.stats import Position, Stats, by_drafter, fold, inter_token_latency, positions, segments
from localspec.spec.types import Finish, Round


def played(drafted: int, accepted: int, *, cut: bool = False, **fields: Any) -> Round:
    tokens = tuple(range(10, 10 + drafted))
    times = {"draft_s": 0.0, "verify_s": 0.0, "sample_s": 0.0, "total_s": 0.0}
    source = "lookup" if drafted else "off"
    return Round(
        **{
            "method": source,
            "source": source,
            "drafted": tokens,
            "accepted": accepted,
            "emitted": tokens[:accepted] if cut else (*tokens[:accepted], 7),
            "p": (),
            "q": (),
            "limit": 4,
            **times,
            **fields,
        }
    )


CORRECTED = played(4, 2, draft_s=0.001, verify_s=0.010, sample_s=0.002, total_s=0.015)
ALL = played(4, 4, draft_s=0.002, verify_s=0.012, sample_s=0.003, total_s=0.020)
PLAIN = played(0, 0, verify_s=0.008, sample_s=0.001, total_s=0.010)
CUT = played(3, 2, cut=True, source="suffix", finish=Finish.STOP, draft_s=0.001, verify_s=0.009, total_s=0.012)
ROUNDS = [CORRECTED, ALL, PLAIN, CUT]


def test_each_round_knows_what_was_tested_and_where_its_tokens_came_from() -> None:
    assert [r.tested for r in ROUNDS] == [3, 4, 0, 2]
    assert [r.cut for r in ROUNDS] == [False, False, False, True]
    assert [r.provenance for r in ROUNDS] == [
        ("lookup", "lookup", "correction"),
        ("lookup", "lookup", "lookup", "lookup", "bonus"),
        ("plain",),
        ("suffix", "suffix"),
    ]


def test_counts_and_seconds_are_sums() -> None:
    stats = fold(iter(ROUNDS))
    assert (stats.rounds, stats.drafts, stats.cut) == (4, 3, 1)
    assert (stats.emitted, stats.drafted, stats.tested, stats.accepted) == (11, 11, 9, 8)
    assert stats.emitted == stats.accepted + stats.rounds - stats.cut
    seconds = (stats.draft_s, stats.verify_s, stats.sample_s, stats.total_s, stats.rest_s)
    assert seconds == pytest.approx((0.004, 0.039, 0.006, 0.057, 0.008))


def test_rates_divide_sums() -> None:
    stats = fold(ROUNDS)
    assert stats.acceptance_rate == pytest.approx(8 / 9)
    assert stats.mean_acceptance_length == pytest.approx(11 / 4)
    assert stats.tokens_per_second == pytest.approx(11 / 0.057)


def test_a_position_counts_only_the_rounds_that_reached_it() -> None:
    """The tail that came after a rejection or an end says nothing."""
    found = fold(ROUNDS).per_position
    assert found == (Position(3, 3), Position(3, 3), Position(2, 1), Position(1, 1))
    assert found[2].rate == 0.5
    assert Position(0, 0).rate is None
    assert positions([PLAIN]) == ()


def test_nothing_counted_is_not_zero() -> None:
    for stats in (fold([]), Stats()):
        assert stats.acceptance_rate is None
        assert stats.mean_acceptance_length is None
        assert stats.tokens_per_second is None
    assert fold([PLAIN]).acceptance_rate is None
    assert inter_token_latency([]) is None


def test_each_source_has_its_own_figures_and_plain_rounds_have_none() -> None:
    found = by_drafter([CUT, *ROUNDS])
    assert list(found) == ["lookup", "suffix"]
    assert found["lookup"] == fold([CORRECTED, ALL])
    assert found["suffix"] == fold([CUT, CUT])


def test_a_segment_is_a_run_of_rounds_under_one_method() -> None:
    found = segments([CORRECTED, ALL, PLAIN, CUT])
    assert [(segment.method, segment.stats.rounds) for segment in found] == [
        ("lookup", 2),
        ("off", 1),
        ("lookup", 1),
    ]
    assert found[0].stats == fold([CORRECTED, ALL])


def test_a_round_spreads_its_time_over_its_tokens() -> None:
    """Five gaps of 4 ms, three of 5, two of 6 and one of 10."""
    assert inter_token_latency(ROUNDS) == pytest.approx((0.005, 0.008))
