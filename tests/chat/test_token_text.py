"""An answer with its marks: no two kinds of token look the same, and the text keeps its lines."""

from __future__ import annotations

from localspec.chat.answer import Answer
from localspec.chat.message import Piece
from localspec.chat.token_text import legend, token_text


def answer(*pieces: tuple[str, ...]) -> Answer:
    made = Answer("lookup")
    made.pieces = [Piece(n, *piece) for n, piece in enumerate(pieces)]
    return made


def test_each_kind_of_token_has_its_mark() -> None:
    made = answer(
        ("The", "plain"),
        (" quick", "lookup"),
        (" brown", "lookup"),
        (" fox", "correction", " dog jumps"),
        (" runs", "lookup"),
        (".", "bonus"),
    )
    assert token_text(made) == "The{ quick| brown}[- dog jumps-]{+ fox+}{ runs}{+.+}"
    assert [line.split()[0] for line in legend(made)] == ["{a|b}", "[-a-]", "{+a+}", "without", "↵"]


def test_several_drafters_have_letters_and_the_legend_names_them() -> None:
    made = answer(("a", "lookup"), ("b", "draft"), ("c", "lookup"), ("d", "bonus"))
    assert token_text(made) == "{L:a}{D:b}{L:c}{+d+}"
    assert "{L:a|b} drafted by lookup" in legend(made)[0] and "{D:a|b} drafted by draft" in legend(made)[1]


def test_the_legend_is_of_the_marks_that_are_there() -> None:
    made = answer(("a", "plain"), ("b", "plain"))
    assert token_text(made) == "ab"
    assert [line.split()[0] for line in legend(made)] == ["without", "↵"]


def test_lines_end_behind_the_marks_and_every_token_is_seen() -> None:
    made = answer(
        ("a\n", "plain"), ("\n", "lookup"), ("\tb", "lookup"), ("", "bonus"), ("c\n", "correction", "x\ny")
    )
    assert token_text(made) == "a↵\n{↵|⇥b}\n{+∅+}[-x↵y-]{+c↵+}\n"


def test_control_characters_are_pictures() -> None:
    assert token_text(answer(("\x1b[31m", "lookup"), ("x", "correction", "\x07"))) == "{␛[31m}[-␇-]{+x+}"
