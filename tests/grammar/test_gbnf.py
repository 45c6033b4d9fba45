"""GBNF is read as llama.cpp reads it, and what can't be used is refused with its line."""

from __future__ import annotations

import pytest

from localspec.errors import ModelError, UsageError
from localspec.grammar.automaton import Grammar
from localspec.grammar.characters import LAST, GrammarError, byte_ranges
from tests.grammar.texts import follows


@pytest.mark.parametrize(
    ("grammar", "inside", "outside"),
    [
        ('root ::= "a"', ["a"], ["", "b", "aa"]),
        ("root ::=", [""], ["a"]),
        ('root ::= "a" |', ["a", ""], ["aa"]),
        ('root ::= "yes" | "no"', ["yes", "no"], ["ye", "maybe", "yesno"]),
        ('root ::= "a"*', ["", "a", "aaaa"], ["b", "ab"]),
        ('root ::= "a"+ "b"?', ["a", "aab"], ["", "b", "abb"]),
        ('root ::= "ab"{2}', ["abab"], ["ab", "ababab"]),
        ('root ::= "a"{2,}', ["aa", "aaaaa"], ["", "a"]),
        ('root ::= "a"{1,3}', ["a", "aa", "aaa"], ["", "aaaa"]),
        ('root ::= "a"{0}', [""], ["a"]),
        ('root ::= ("a" | "b" "c")* "d"', ["d", "abcad"], ["bd", ""]),
        ('root ::= ("a"*)*', ["", "aaa"], ["b"]),
        ('root ::= (""*)* "x"', ["x"], [""]),
        ("root ::= [a-c]", ["a", "b", "c"], ["d", "-", ""]),
        ("root ::= [a-]", ["a", "-"], ["b"]),
        (r"root ::= [a\-c]", ["a", "-", "c"], ["b"]),
        (r"root ::= [\]\\]", ["]", "\\"], ["["]),
        ("root ::= [^a-c]", ["d", "é", "😀", "\n"], ["a", "b", ""]),
        ("root ::= [à-ü]", ["é"], ["e", "ý"]),
        ("root ::= .", ["a", "€", "😀", "\n"], ["", "ab"]),
        (r'root ::= "\x41\u00e9\U0001F600\n\t\"\\"', ['Aé😀\n\t"\\'], ["Aé"]),
        ('root ::= a b\na ::= "x"\n\n# words\nb ::= "y" # more words\n', ["xy"], ["x"]),
        ('root ::=\n  "a" |\n  "b"', ["a", "b"], ["ab"]),
        ('root ::= (\n "a"\n | "b"\n)', ["a", "b"], ["ab"]),
        ('root ::= "#" "|" # not a comment before', ["#|"], ["#"]),
        ('root ::= "(" root ")" | "x"', ["x", "((x))"], ["(x", "x)"]),
        ('root ::= "a" root | ""', ["", "aaa"], ["b"]),
        ('a-1 ::= "x"\r\nroot ::= a-1 a-1\r\n', ["xx"], ["x"]),
    ],
)
def test_a_grammar_means_what_llama_cpp_says(grammar: str, inside: list[str], outside: list[str]) -> None:
    assert [text for text in inside if not follows(grammar, text)] == []
    assert [text for text in outside if follows(grammar, text)] == []


@pytest.mark.parametrize(
    ("grammar", "line", "words"),
    [
        ('root ::= "a', 1, "closing quote"),
        ("root ::= [a", 1, "closing bracket"),
        ('root ::= "a"{', 1, "closing brace"),
        ('root ::= ("a"\n\n', 1, "never closed"),
        ('root ::= "a" )', 1, "')'"),
        ('root = "a"', 1, "'='"),
        ('x\n\nroot ::= "a"', 1, "::="),
        ('root ::= "a"\n  | "b"', 2, "begin with its name"),
        ('foo ::= "a"\n', 2, "'root'"),
        ("", 1, "'root'"),
        ('root ::= "a"\nroot ::= "b"', 2, "twice"),
        ('root ::= "a"\n\n\nb ::= nothing', 4, "'nothing'"),
        ("root ::= ?", 1, "nothing before"),
        ('root ::= "a"{3,2}', 1, "at most 2"),
        ('root ::= "a"{2001}', 1, "2000"),
        ('root ::= "a"{x}', 1, "no repetition"),
        (r'root ::= "\q"', 1, "no escape"),
        (r'root ::= "\x4"', 1, "no escape"),
        (r'root ::= "\U00110000"', 1, "no character"),
        (r'root ::= "\ud800"', 1, "no character"),
        ("root ::= [z-a]", 1, "backwards"),
        ("root ::= []", 1, "nothing"),
        ("root ::= [^\\x01-\\U0010FFFF]", 1, "nothing"),
        ("root ::= <think>", 1, "single tokens"),
        ('root ::= "a"\nb ::= b "x" | "y"', 2, "begins with itself"),
        ('root ::= b\nb ::= "x"? c\nc ::= b | "y"', 2, "begins with itself"),
        ('root ::= "x" root', 1, "end"),
        ('root ::= "a" | b\nb ::= "x" b', 2, "'b'"),
    ],
)
def test_what_can_not_be_used_is_refused_with_its_line(grammar: str, line: int, words: str) -> None:
    with pytest.raises(GrammarError) as refused:
        Grammar(grammar)
    assert refused.value.line == line
    assert words in refused.value.message
    assert refused.value.hint


def test_a_list_of_any_length_needs_no_more_memory_than_a_short_one() -> None:
    start = Grammar('root ::= "a" root | ""').start
    assert start.after_all(b"a" * 500) is start.after_all(b"a")


def test_parentheses_of_any_depth_do_no_harm() -> None:
    with pytest.raises(GrammarError, match="nested"):
        Grammar("root ::= " + "(" * 100_000)


def test_a_grammar_that_unfolds_to_millions_is_refused() -> None:
    with pytest.raises(UsageError, match="too large"):
        Grammar('root ::= (("a" | "b"){2000} "x"){2000} | ' + " | ".join(f'("{i}"){{2000}}' for i in range(200)))


def test_a_text_with_too_many_readings_is_an_error_not_a_hang() -> None:
    grammar = Grammar('root ::= "x" root "y" | "x" root "z" | ""')
    with pytest.raises(ModelError, match="readings"):
        grammar.start.after_all(b"x" * 40)


@pytest.mark.parametrize(
    ("low", "high"), [(1, LAST), (0x20, 0x7E), (0x70, 0x900), (0xD000, 0xE100), (0xFFFF, 0x10000)]
)
def test_the_bytes_of_a_range_are_those_of_its_characters(low: int, high: int) -> None:
    sequences = list(byte_ranges(low, high))

    def matching(code: int) -> int:
        data = chr(code).encode("utf-8", "surrogatepass")
        return sum(
            len(s) == len(data) and all(a <= b <= z for b, (a, z) in zip(data, s, strict=True)) for s in sequences
        )

    edges = {0, low - 1, low, low + 1, high - 1, high, high + 1, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xD800, 0xDFFF}
    for code in (edges | {0xE000, 0xFFFF, 0x10000, LAST, *range(low, high, 997)}) - {-1, LAST + 1}:
        wanted = low <= code <= high and not 0xD800 <= code <= 0xDFFF
        assert matching(code) == wanted, hex(code)
