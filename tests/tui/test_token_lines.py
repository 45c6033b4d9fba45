"""Tokens in lines: nothing is lost, nothing is wider than the line, and what comes later changes nothing before it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from localspec.chat.message import Piece
from localspec.chat.text import visible
from localspec.chat.token_text import NEWLINE, NO_TEXT, letters
from localspec.tui.token_lines import TAB, Mark, TokenLines, mark_of

WORDS = (
    " the",
    " a",
    "x",
    "\n",
    "\n\n",
    "漢字",
    "\t",
    "",
    "[/b]",
    "e\u0301",
    "\u0301",
    "\u202e",
    "\x1b[2J",
    " שלום",
    "👩\u200d",
    "👩",
)
PIECES = st.lists(
    st.builds(Piece, st.just(0), st.sampled_from(WORDS), st.just("plain"), st.sampled_from(("", " no\nt")))
)


def laid_out(pieces: list[Piece], width: int) -> TokenLines:
    lines = TokenLines(width)
    for number, piece in enumerate(pieces):
        lines.add(number, piece, Mark.PLAIN)
    return lines


def texts(lines: TokenLines) -> list[str]:
    return ["".join(run.text for run in lines.runs(y)) for y in range(len(lines))]


def shown(piece: Piece) -> str:
    marked = (
        visible(text).replace("\t", TAB).replace("\n", NEWLINE) for text in (piece.ghost, piece.text or NO_TEXT)
    )
    return "".join(marked)


@given(PIECES, st.integers(8, 40))
def test_every_character_is_there_once_and_no_line_is_too_wide(pieces: list[Piece], width: int) -> None:
    lines = laid_out(pieces, width)
    assert "".join(texts(lines)) == "".join(map(shown, pieces))
    for y in range(len(lines)):
        runs = list(lines.runs(y))
        assert sum(run.width for run in runs) <= width
        assert all(cell_len(run.text) == run.width for run in runs)


@given(PIECES, st.integers(8, 40))
def test_lines_that_are_closed_stay_as_they_are(pieces: list[Piece], width: int) -> None:
    *closed, _ = texts(laid_out(pieces[: len(pieces) // 2], width))
    assert texts(laid_out(pieces, width))[: len(closed)] == closed


@given(PIECES, st.integers(8, 40))
def test_the_place_of_a_token_is_where_it_is_found(pieces: list[Piece], width: int) -> None:
    lines = laid_out(pieces, width)
    for token, piece in enumerate(pieces):
        if cell_len(visible(piece.text or NO_TEXT).replace("\n", NEWLINE)) and "👩" not in piece.text:
            assert lines.token_at(*lines.place_of(token)) == token


def test_words_stay_whole_and_the_blank_hangs() -> None:
    assert texts(laid_out([Piece(0, word, "plain") for word in ("one", " two", " three")], 9)) == [
        "one two ",
        "three",
    ]


def test_a_word_that_is_longer_than_the_line_is_cut() -> None:
    assert texts(laid_out([Piece(0, "a" * 20, "plain")], 9)) == ["a" * 8, "a" * 8, "a" * 4]


def test_a_rejected_line_feed_breaks_no_line() -> None:
    lines = laid_out(
        [Piece(0, "yes", "correction", ghost="no\nnever"), Piece(0, "\n", "plain"), Piece(0, "x", "plain")], 30
    )
    assert texts(lines) == ["no↵neveryes↵", "x"]
    assert [run.mark for run in lines.runs(0)] == [Mark.GHOST, Mark.PLAIN, Mark.PLAIN]


def test_an_emoji_that_two_tokens_share_is_one_character() -> None:
    (run,) = laid_out([Piece(0, "👩\u200d", "plain"), Piece(0, "👩", "plain")], 30).runs(0)
    assert run.text == "👩\u200d👩"
    assert run.width == 2


@pytest.mark.parametrize(
    ("provenance", "position", "mark"),
    [
        ("lookup", 0, Mark.EVEN),
        ("draft", 1, Mark.ODD),
        ("bonus", 2, Mark.OWN),
        ("correction", 0, Mark.OWN),
        ("plain", 0, Mark.PLAIN),
    ],
)
def test_marks(provenance: str, position: int, mark: Mark) -> None:
    assert mark_of(Piece(0, "x", provenance), position) is mark


def test_each_drafter_has_a_letter_of_its_own() -> None:
    assert letters(["lookup", "draft", "dflash", "suffix"]) == {
        "lookup": "L",
        "draft": "D",
        "dflash": "F",
        "suffix": "S",
    }
    assert letters(["a", "a-a"]) == {"a": "A", "a-a": "?"}
