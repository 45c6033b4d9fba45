"""Bars and strips show the numbers they were given, at any width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.numbers import milliseconds, percent, speed
from localspec.spec.types import Round
from localspec.tui.charts import SWITCH, acceptance_of, bar, short, speed_of, stacked, strip
from tests.tui.scripted import rounds

SENTENCE = "some words that are long enough to be spoken in quite a few rounds of decoding " * 8


def made(method: str, text: str = SENTENCE) -> list[Round]:
    return [one for one, _ in rounds(text, method=method)]


@given(st.floats(-1, 2), st.integers(0, 60))
def test_a_bar_has_the_width_it_was_given(share: float, width: int) -> None:
    assert sum(map(len, bar(share, width))) == width


@pytest.mark.parametrize(("share", "filled"), [(0, ""), (0.5, "━━━━"), (0.56, "━━━━╸"), (1, "━" * 8)])
def test_a_bar_is_exact_to_half_a_cell(share: float, filled: str) -> None:
    assert bar(share, 8)[0] == filled


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=6), st.integers(1, 80))
def test_stacked_shares_fill_the_width(shares: list[float], width: int) -> None:
    assert sum(stacked(shares, width)) == (width if sum(shares) > 0 else 0)


@given(st.integers(1, 80), st.integers(0, 60), st.integers(0, 60))
def test_a_strip_never_exceeds_its_width(width: int, off: int, lookup: int) -> None:
    shown = strip(made("off")[:off] + made("lookup")[:lookup], width, speed_of)
    assert len(shown) <= width


def test_a_strip_marks_where_the_method_was_switched() -> None:
    shown = strip(made("off") + made("lookup") + made("off"), 40, speed_of)
    assert shown.count(SWITCH) == 2


def test_a_full_column_is_the_largest_value_and_a_blank_is_none() -> None:
    shown = strip(made("off")[:4], 40, speed_of, top=1e9)
    assert shown == "▁▁▁▁"
    assert strip(made("off")[:4], 40, acceptance_of, top=1.0) == "    "
    assert "█" in strip(made("lookup"), 40, speed_of)


def test_numbers_for_people() -> None:
    assert [percent(None), percent(0.615), percent(1)] == ["–", "62 %", "100 %"]
    assert [speed(None), speed(9.26), speed(92.6)] == ["–", "9.3", "93"]
    assert [short(999), short(1240), short(9949), short(9999), short(131072)] == [
        "999",
        "1.2k",
        "9.9k",
        "10k",
        "131k",
    ]
    assert [milliseconds(0.0312), milliseconds(0.0031)] == ["31 ms", "3.1 ms"]
