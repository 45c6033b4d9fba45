"""Tokens against a grammar: one by one, all at once, and as llama.cpp decides."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.errors import UsageError
from localspec.grammar.automaton import Grammar
from localspec.grammar.matcher import Alphabet, Matcher
from localspec.grammar.schema import to_gbnf

PIECES = [b"", b"a", b"b", b"ab", b"aba", b"\xc3", b"\xa9", b"\xc3\xa9", b"\xc3\xa9a", b"<end>", b"c", b"aa", b""]
CONTROL, END, SILENT_END = 0, 9, 12
ALL = np.arange(len(PIECES), dtype=np.int32)


def begin(grammar: str) -> Matcher:
    return Matcher.begin(Grammar(grammar), Alphabet(PIECES, {END, SILENT_END}))


def allowed(state: Matcher) -> set[int]:
    return set(np.flatnonzero(state.allows(ALL)).tolist())


def test_a_token_is_allowed_where_all_of_it_fits() -> None:
    assert allowed(begin('root ::= "ab" "a"?')) == {1, 3, 4}
    assert allowed(begin('root ::= "b"+')) == {2}
    assert allowed(begin("root ::= [^a]+")) == {2, 5, 7, 10}


def test_tokens_may_end_inside_a_character() -> None:
    half = begin('root ::= "é" "a"').after(5)
    assert half is not None
    assert allowed(half) == {6}
    assert allowed(begin("root ::= [é] [a]")) == {5, 7, 8}


def test_end_tokens_are_allowed_where_the_text_may_end_and_no_text_follows_them() -> None:
    state = begin('root ::= "a" | "ab"').after(1)
    assert state is not None
    assert allowed(state) == {2, END, SILENT_END}
    done = state.after(2)
    assert done is not None
    assert allowed(done) == {END, SILENT_END}, "a complete text allows nothing but its end"
    ended = done.after(END)
    assert ended is not None
    assert allowed(ended) == {END, SILENT_END}
    assert ended.after(1) is None


def test_control_tokens_never_match_nor_does_the_spelling_of_an_end() -> None:
    free = begin("root ::= [^x]*")
    assert CONTROL not in allowed(free)
    assert free.after(CONTROL) is None
    assert END not in allowed(begin('root ::= "<end>" "a"'))


def test_a_state_is_a_value() -> None:
    start = begin('root ::= "a" ("b" | "c")')
    before = allowed(start)
    tried = start.after(1)
    assert tried is not None and tried.after(2) is not None
    assert allowed(start) == before
    assert tried.after(10) is not None, "the rejected b left no trace"


def test_a_model_without_an_end_is_refused() -> None:
    with pytest.raises(UsageError, match="end token"):
        Alphabet(PIECES, ())


GRAMMARS = [
    'root ::= "a" root "b" | ""',
    'root ::= ("ab" | "aba")* "c"?',
    "root ::= [^b]{1,4}",
    'root ::= ("é" | "a")+',
    'root ::= x | y\nx ::= "a" y?\ny ::= "b" x?',
]


@given(st.sampled_from(GRAMMARS), st.lists(st.sampled_from(ALL.tolist()), max_size=6))
def test_after_and_allows_agree_and_end_where_the_grammar_does(grammar: str, tokens: list[int]) -> None:
    state: Matcher | None = begin(grammar)
    for i, token in enumerate(tokens):
        assert state is not None
        may = token in allowed(state)
        state = state.after(token)
        assert may == (state is not None)
        if state is None:
            return
        if token not in (END, SILENT_END):
            read = Grammar(grammar).start.after_all(b"".join(PIECES[t] for t in tokens[: i + 1]))
            assert read is not None and (END in allowed(state)) == read.ends


@given(st.sampled_from(GRAMMARS), st.integers(0, 4), st.randoms(use_true_random=False))
def test_many_tokens_at_once_are_judged_as_one_by_one(grammar: str, steps: int, random) -> None:  # type: ignore[no-untyped-def]
    state = begin(grammar)
    for _ in range(steps):
        moves = [s for token in sorted(allowed(state)) if (s := state.after(token)) is not None]
        state = random.choice(moves) if moves else state
    many = np.array([random.choice(ALL.tolist()) for _ in range(200)], np.int32)
    assert state.allows(many).tolist() == [bool(state.allows(many[i : i + 1])[0]) for i in range(many.size)]


class Native:
    """llama.cpp's own matcher, with its sampler freed after use. It aborts on a forbidden token: ask first."""

    def __init__(self, vocab: object, grammar: str) -> None:
        from localspec.llama.native import lc

        self._lc = lc
        self._sampler = lc.llama_sampler_init_grammar(vocab, grammar.encode(), b"root")
        assert self._sampler

    def close(self) -> None:
        self._lc.llama_sampler_free(self._sampler)

    def allows(self, n_vocab: int) -> np.ndarray:
        data = np.zeros(n_vocab, np.dtype([("id", "<i4"), ("logit", "<f4"), ("p", "<f4")]))
        data["id"] = np.arange(n_vocab)
        pointer = data.ctypes.data_as(ctypes.POINTER(self._lc.llama_token_data))
        array = self._lc.llama_token_data_array(pointer, n_vocab, -1, False)
        self._lc.llama_sampler_apply(self._sampler, ctypes.byref(array))
        return np.asarray(data["logit"] == 0)

    def accept(self, token: int) -> None:
        self._lc.llama_sampler_accept(self._sampler, token)


SCHEMA = """{"type": "object", "required": ["name", "size"], "properties": {"name": {"type": "string", "maxLength": 9},
  "size": {"type": "integer", "minimum": -12, "maximum": 130}, "on": {"enum": ["2024-01-31", null]}}}"""
ALIKE = {
    "words": ('root ::= ("the " | "then" | [^a-z])+ "."', "the then!."),
    "characters": ('root ::= "é" [à-ü]+ . [^x]*', "éèü€ 😀"),
    "schema": (to_gbnf(SCHEMA), '{"name": "Zoë\\n", "size": -11,\n  "on": null}'),
}


@pytest.fixture
def native(demo_model: str) -> Iterator[tuple[object, object]]:
    from localspec.llama.load import load_vocab

    vocab = load_vocab(demo_model)
    yield vocab, vocab._vocab
    vocab.close()


@pytest.mark.parametrize("name", ALIKE)
def test_every_mask_is_that_of_llama_cpp(name: str, native: tuple[object, object]) -> None:
    vocab, pointer = native
    grammar, text = ALIKE[name]
    pieces = vocab.pieces  # type: ignore[attr-defined]
    silent = np.array([not piece for piece in pieces])
    end = np.zeros(len(pieces), np.bool_)
    end[list(vocab.eog)] = True  # type: ignore[attr-defined]
    state: Matcher | None = Matcher.begin(Grammar(grammar), Alphabet(pieces, vocab.eog))  # type: ignore[attr-defined]
    theirs, read = Native(pointer, grammar), b""
    for token in vocab.tokenise(text, special=False, bos=False):  # type: ignore[attr-defined]
        assert state is not None
        ours = state.allows(np.arange(len(pieces), dtype=np.int32))
        # Two differences, both on purpose: llama.cpp lets the spelling of a control token match, which is no text of
        # ours, and lets an answer end in the middle of a character.
        whole = read.decode(errors="ignore").encode() == read
        assert np.array_equal(ours, theirs.allows(len(pieces)) & (~silent | end) & (~end | whole))
        assert ours[token]
        theirs.accept(token)
        state = state.after(token)
        read += pieces[token]
    theirs.close()
