"""Nothing that is drawn can act on the terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.text import one_line, visible


@given(st.text(st.characters(codec=None)))
def test_no_control_character_survives(text: str) -> None:
    shown = visible(text)
    assert [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t"] == []
    shown.encode("utf-8")


@given(st.text(st.characters(codec=None)))
def test_lines_are_those_that_a_line_feed_ends(text: str) -> None:
    # Textual cuts a streamed text with splitlines, its Markdown parser at line feeds: they must agree.
    assert visible(text).splitlines(keepends=True) == [
        line for line in visible(text).replace("\n", "\n\0").split("\0") if line
    ]


@given(st.text(st.characters(codec=None)), st.text(st.characters(codec=None)))
def test_pieces_read_like_the_whole(one: str, two: str) -> None:
    if not (one.endswith("\r") and two.startswith("\n")):
        assert visible(one) + visible(two) == visible(one + two)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "␛[31mred"),
        ("a\x00b\x7f", "a␀b␡"),
        ("\x9b2J", "\N{REPLACEMENT CHARACTER}2J"),
        ("\u202egnp.exe", "\N{REPLACEMENT CHARACTER}gnp.exe"),
        ("one\r\ntwo", "one\ntwo"),
        ("half \ud83d", "half \N{REPLACEMENT CHARACTER}"),
        ("tab\tstays", "tab\tstays"),
        ("שלום 漢字 e\u0301 👩‍👩‍👧", "שלום 漢字 e\u0301 👩‍👩‍👧"),
    ],
)
def test_what_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_one_line_is_one_line() -> None:
    assert one_line("a\n b\x1b", 20) == "a b␛"
    assert one_line("abcdefgh", 5) == "abcd…"
