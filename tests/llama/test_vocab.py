"""Text to tokens and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.errors import ModelLoadError
from localspec.llama.load import load_vocab
from localspec.llama.vocab import Vocab
from tests import ggufs
from tests.conftest import Models


@pytest.fixture(scope="module")
def vocab(models: Models) -> Iterator[Vocab]:
    found = load_vocab(models("noise"))
    yield found
    found.close()


@pytest.fixture(scope="module")
def demo(demo_model: str) -> Iterator[Vocab]:
    found = load_vocab(demo_model)
    yield found
    found.close()


def spelt(vocab: Vocab, ids: list[int]) -> bytes:
    return b"".join(vocab.pieces[i] for i in ids)


@given(text=st.text())
def test_text_comes_back_as_it_went_in(vocab: Vocab, text: str) -> None:
    assert spelt(vocab, vocab.tokenise(text, special=False, bos=False)) == text.encode()


@pytest.mark.parametrize(
    "text", ["Hello world", " two  spaces\n\n\tx", "Grüße, 😀👩‍👩‍👧 日本語", "[/ a[i] <b>", "3.14e-5"]
)
def test_also_with_the_demo_model(demo: Vocab, text: str) -> None:
    """Not all text: this vocabulary has no token for a few control characters."""
    assert spelt(demo, demo.tokenise(text, special=False, bos=False)) == text.encode()


def test_special_texts_are_tokens_only_where_asked(vocab: Vocab) -> None:
    assert vocab.tokenise("a<|im_end|>", special=True, bos=False) == [3 + ord("a"), 2]
    plain = vocab.tokenise("a<|im_end|>", special=False, bos=False)
    assert 2 not in plain
    assert spelt(vocab, plain) == b"a<|im_end|>"
    assert vocab.special_texts == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}


def test_a_begin_token_is_put_in_front_once(vocab: Vocab) -> None:
    assert vocab.bos == 0
    assert vocab.tokenise("a", special=False, bos=True) == [0, 3 + ord("a")]
    assert vocab.tokenise("", special=False, bos=True) == [0]
    assert vocab.tokenise("", special=False, bos=False) == []


@pytest.mark.parametrize("wants", [True, False])
def test_whether_the_model_wants_a_begin_token_is_read(tmp_path: Path, wants: bool) -> None:
    vocab = load_vocab(str(ggufs.noise(tmp_path / "m.gguf", add_bos=wants)))
    assert vocab.add_bos is wants
    # Asking is what counts: llama.cpp's own flag must not add a second one.
    assert vocab.tokenise("a", special=False, bos=False) == [3 + ord("a")]
    vocab.close()


def test_every_end_token_is_known(vocab: Vocab, demo: Vocab) -> None:
    assert vocab.eog == {0, 2}
    assert {demo.spellings[i] for i in demo.eog} >= {b"<|endoftext|>", b"<|im_end|>"}


def test_texts_of_begin_and_end(vocab: Vocab) -> None:
    assert (vocab.bos_text, vocab.eos_text) == ("<|endoftext|>", "<|im_end|>")


def test_control_tokens_have_no_bytes_but_a_spelling(vocab: Vocab) -> None:
    assert [vocab.pieces[i] for i in (0, 1, 2)] == [b"", b"", b""]
    assert vocab.spellings[2] == b"<|im_end|>"
    assert vocab.spellings[3:] == vocab.pieces[3:]


def test_one_piece_for_each_id(vocab: Vocab) -> None:
    assert len(vocab.pieces) == len(vocab) == vocab.size == len(ggufs.bpe().texts)
    assert [vocab.pieces[3 + b] for b in range(256)] == [bytes([b]) for b in range(256)]


def test_long_pieces_are_not_cut(tmp_path: Path) -> None:
    vocab = load_vocab(str(ggufs.noise(tmp_path / "m.gguf", pieces=ggufs.bpe(("long" * 500, "after")))))
    assert vocab.pieces[-2:] == [b"long" * 500, b"after"]
    vocab.close()


def test_sentencepiece_bytes_and_spaces(models: Models) -> None:
    vocab = load_vocab(models("emoji"))
    ids = vocab.tokenise("the cat 😀", special=False, bos=True)
    assert ids[0] == 1 and spelt(vocab, ids) == "the cat 😀".encode()
    vocab.close()


def test_odd_text(vocab: Vocab) -> None:
    assert spelt(vocab, vocab.tokenise("a\0b", special=True, bos=False)) == b"a\0b"
    assert spelt(vocab, vocab.tokenise("\udc80", special=True, bos=False)) == b"?"
    pasted = "lorem [/ a[i] \x1b[0m " * 5000
    assert spelt(vocab, vocab.tokenise(pasted, special=False, bos=False)) == pasted.encode()


def test_templates(vocab: Vocab, tmp_path: Path) -> None:
    assert vocab.chat_template == ggufs.CHATML
    assert vocab.template("tool_use") is None
    path = ggufs.noise(tmp_path / "m.gguf", template=None, extra={"tokenizer.chat_template.tool_use": "{{ 1 }}"})
    bare = load_vocab(str(path))
    assert bare.chat_template is None
    assert bare.template("tool_use") == "{{ 1 }}"
    bare.close()


def test_a_template_that_cannot_be_read_does_not_keep_the_model_from_loading(tmp_path: Path) -> None:
    path = ggufs.noise(tmp_path / "m.gguf", template=ggufs.TEMPLATES["syntax_error"])
    vocab = load_vocab(str(path))
    assert vocab.chat_template == ggufs.TEMPLATES["syntax_error"]
    vocab.close()


def test_an_unknown_tokeniser_is_named(tmp_path: Path) -> None:
    path = ggufs.noise(tmp_path / "m.gguf", extra={"tokenizer.ggml.pre": "from-the-future"})
    with pytest.raises(ModelLoadError, match=r"does not know the tokenizer 'from-the-future'"):
        load_vocab(str(path))
