from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.detok import Detokenizer, StopScanner, TextStream
from localspec.errors import UsageError
from localspec.spec.types import Finish

BYTES = [bytes([b]) for b in range(256)]  # one token per byte: the hardest case for characters
EOG = 256
PIECES = [*BYTES, b"<|im_end|>", b"<|end|>"]


def text_of(data: bytes) -> str:
    detokenizer = Detokenizer(BYTES)
    return "".join(detokenizer.feed(b) for b in data) + detokenizer.flush()


@given(st.text())
def test_any_text_survives_byte_tokens(text: str) -> None:
    assert text_of(text.encode("utf-8", "surrogatepass")) == text.encode("utf-8", "surrogatepass").decode(
        "utf-8", "replace"
    )


@given(st.binary())
def test_no_bytes_are_dropped(data: bytes) -> None:
    assert text_of(data) == data.decode("utf-8", "replace")


@given(st.text())
def test_a_character_is_never_shown_in_halves(text: str) -> None:
    detokenizer = Detokenizer(BYTES)
    shown = ""
    for byte in text.encode():
        shown += detokenizer.feed(byte)
        assert text.startswith(shown)


def test_an_answer_cut_inside_an_emoji_owes_one_replacement_character() -> None:
    assert text_of("ok 😀".encode()[:-1]) == "ok \ufffd"


def test_flush_leaves_nothing_for_a_second_flush() -> None:
    detokenizer = Detokenizer(BYTES)
    detokenizer.feed(0xF0)
    assert (detokenizer.flush(), detokenizer.flush()) == ("\ufffd", "")


def scan(stops: list[str], chunks: list[str]) -> tuple[str, bool]:
    scanner = StopScanner(stops)
    text = "".join(scanner.feed(chunk) for chunk in chunks)
    return text + scanner.flush(), scanner.hit


def reference(stops: list[str], text: str) -> tuple[str, bool]:
    """The stop string that is complete first, the longest of those: by trying every end."""
    for end in range(len(text) + 1):
        here = [stop for stop in stops if text[:end].endswith(stop)]
        if here:
            return text[: end - max(map(len, here))], True
    return text, False


small = st.text("ab", min_size=1, max_size=4)


@given(st.lists(small, max_size=3), st.lists(st.text("ab", max_size=5), max_size=8))
def test_stops_do_not_depend_on_how_the_text_arrives(stops: list[str], chunks: list[str]) -> None:
    assert scan(stops, chunks) == reference(stops, "".join(chunks))


@given(st.lists(small, min_size=1, max_size=3), st.lists(st.text("ab", max_size=5), max_size=8))
def test_no_part_of_a_stop_is_ever_shown(stops: list[str], chunks: list[str]) -> None:
    scanner, shown = StopScanner(stops), ""
    final = reference(stops, "".join(chunks))[0]
    for chunk in chunks:
        shown += scanner.feed(chunk)
        assert final.startswith(shown)


@pytest.mark.parametrize(
    ("stops", "chunks", "text"),
    [
        (["STOP"], ["go S", "T", "OP", " on"], "go "),  # over three tokens
        (["STOP"], ["one STOP two STOP"], "one "),  # early in a long block
        (["b", "abc"], ["xab", "c"], "xa"),  # the one that ends first
        (["END", "\nEND"], ["x\nEND"], "x"),  # together: the longest
        (["aab"], ["a", "a", "a", "b"], "a"),  # a false start inside the stop itself
        (["😀!"], ["hi 😀", "!"], "hi "),
    ],
)
def test_stop_strings(stops: list[str], chunks: list[str], text: str) -> None:
    assert scan(stops, chunks) == (text, True)


def test_a_beginning_that_leads_nowhere_is_shown_in_the_end() -> None:
    scanner = StopScanner(["STOP"])
    assert scanner.feed("a ST") == "a "
    assert scanner.feed("ART S") == "START "
    assert [scanner.flush(), scanner.flush()] == ["S", ""]


def test_nothing_is_shown_after_a_stop() -> None:
    scanner = StopScanner(["x"])
    assert [scanner.feed("axb"), scanner.feed("c"), scanner.flush()] == ["a", "", ""]


def test_empty_stop_strings_are_refused() -> None:
    with pytest.raises(UsageError):
        StopScanner(["ok", ""])


def stream(data: bytes, stops: list[str]) -> tuple[TextStream, list[Finish | None]]:
    it = TextStream(PIECES, stops, {EOG})
    return it, [it(b) for b in data]


def test_each_token_has_its_text() -> None:
    it, finishes = stream("né".encode(), [])
    assert finishes == [None] * 3
    assert it.take() == ("n", "", "é")
    assert it.take() == ()


def test_take_stays_aligned_while_text_is_held_back() -> None:
    it, _ = stream(b"ab", ["bc"])
    assert it.take() == ("a", "")
    it(ord("d"))
    assert it.take() == ("bd",)


def test_the_end_token_stops_and_shows_nothing() -> None:
    it = TextStream(PIECES, [], {EOG})
    assert [it(ord("a")), it(EOG)] == [None, Finish.STOP]
    assert it.take() == ("a", "")
    assert it.flush() == ""


def test_every_token_of_the_end_set_ends() -> None:
    assert TextStream(PIECES, [], {256, 257})(257) is Finish.STOP


def test_a_stop_string_ends_at_the_token_that_completes_it() -> None:
    it, finishes = stream(b"go END", ["END"])
    assert finishes == [None] * 5 + [Finish.STOP_STRING]
    assert it.take() == ("g", "o", " ", "", "", "")
    assert it.flush() == ""


def test_an_end_token_releases_what_was_held_back() -> None:
    it, _ = stream(b"a EN", ["END"])
    assert it(EOG) is Finish.STOP
    assert "".join(it.take()) + it.flush() == "a EN"


def test_an_answer_cut_by_the_limit_shows_its_broken_character() -> None:
    it, _ = stream("hi 😀".encode()[:-2], [])
    assert "".join(it.take()) + it.flush() == "hi \ufffd"


def test_a_stop_that_the_last_broken_character_completes() -> None:
    it, _ = stream(b"x\xf0", ["\ufffd"])
    assert "".join(it.take()) + it.flush() == "x"
