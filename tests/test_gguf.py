"""Headers: what a good file is, and the one sentence for each bad one."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest
from gguf import GGUFReader
from hypothesis import given
from hypothesis import strategies as st

from localspec import gguf
from localspec.errors import ModelLoadError
from tests import ggufs
from tests.broken import BAD, number
from tests.conftest import Models


def test_a_header_says_what_the_file_is(models: Models) -> None:
    header = gguf.check(models("noise_q8"))
    assert (header.architecture, header.name, header.version) == ("llama", "noise", 3)
    assert header.number("$.block_count") == 2
    assert header.number("$.no_such_key", 7) == 7
    assert header.chat_template == ggufs.CHATML
    assert header.split == (0, 1)
    assert header.vocabulary is not None and header.vocabulary.model == "gpt2"
    assert header.vocabulary.size == len(ggufs.bpe().texts)


@pytest.mark.parametrize("name", ["noise", "noise_q8", "noise_f16", "window", "recur", "hybrid"])
def test_tensors_are_read_as_the_reference_reader_reads_them(models: Models, name: str) -> None:
    ours, theirs = gguf.check(models(name)), GGUFReader(models(name))
    assert [(t.name, t.shape, t.type, ours.data_offset + t.offset, t.nbytes) for t in ours.tensors] == [
        (t.name, tuple(t.shape.tolist()), int(t.tensor_type), t.data_offset, t.n_bytes) for t in theirs.tensors
    ]


def test_numbers_that_differ_from_layer_to_layer_give_the_largest(tmp_path: Path) -> None:
    path = ggufs.noise(tmp_path / "layers.gguf", extra={"llama.attention.head_count": [2, 8]})
    assert gguf.read(str(path)).number("$.attention.head_count") == 8


def test_an_outline_has_the_shape_without_the_vocabulary(models: Models) -> None:
    outline, header = gguf.outline(models("noise")), gguf.read(models("noise"))
    assert outline.vocabulary is None and outline.tensors == () and outline.size == header.size
    shape = {key for key in header.metadata if key.startswith("llama.")}
    assert {key: outline.metadata[key] for key in shape} == {key: header.metadata[key] for key in shape}


@pytest.mark.parametrize("text", [b"", b"<html>", b"GGUF", b"GGUF\x03\0\0\0" + b"\xff" * 16])
def test_an_outline_of_something_else_is_refused(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "x.gguf").write_bytes(text)
    with pytest.raises(ModelLoadError):
        gguf.outline(str(tmp_path / "x.gguf"))


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_with_its_own_reason(tmp_path: Path, case: str) -> None:
    build, reason = BAD[case]
    path = str(build(tmp_path))
    with pytest.raises(ModelLoadError) as caught:
        gguf.check(path)
    assert reason in caught.value.reason
    assert caught.value.message.startswith(f"Cannot load {path}: ")
    assert caught.value.hint
    assert "\n" not in caught.value.message
    assert caught.value.exit_code == 1


def test_no_permission(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)  # a real one would not stop root
    with pytest.raises(ModelLoadError, match="this user may not read it"):
        gguf.check(noise)


def test_lying_lengths_cost_no_memory(tmp_path: Path) -> None:
    vocabulary = ggufs.noise(tmp_path / "m.gguf").read_bytes()
    at = vocabulary.index(b"tokenizer.ggml.tokens") + len(b"tokenizer.ggml.tokens") + 8
    lie = tmp_path / "lie.gguf"
    for claimed in (2**24, 2**50, 2**64 - 1):
        lie.write_bytes(vocabulary[:at] + number(claimed) + vocabulary[at + 8 :])
        tracemalloc.start()
        with pytest.raises(ModelLoadError):
            gguf.check(str(lie))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 4_000_000


def test_empty_pieces_may_repeat(tmp_path: Path) -> None:
    """llama.cpp gives each of them a name of its own."""
    path = ggufs.noise(tmp_path / "m.gguf", pieces=ggufs.bpe(("", "")))
    assert gguf.check(str(path)).vocabulary.repeated == ()  # type: ignore[union-attr]


def test_the_vocabulary_fingerprint_sees_pieces_and_their_order(tmp_path: Path) -> None:
    def of(*extra: str) -> str:
        header = gguf.check(str(ggufs.noise(tmp_path / "m.gguf", pieces=ggufs.bpe(extra))))
        assert header.vocabulary is not None
        return header.vocabulary.fingerprint

    assert of("ab", "cd!") == of("ab", "cd!")
    assert len({of("ab", "cd!"), of("cd!", "ab"), of("abc", "d!"), of("abcd!")}) == 4


def test_shards_are_one_model(tmp_path: Path) -> None:
    ggufs.noise(tmp_path / "m.gguf", per_file=8)
    header = gguf.check(str(tmp_path / "m-00001-of-00003.gguf"))
    assert [Path(part).name for part in gguf.shards(header)] == [f"m-0000{i}-of-00003.gguf" for i in (1, 2, 3)]


class TestFingerprint:
    def test_equal_files_have_equal_ones(self, noise: str, tmp_path: Path) -> None:
        copy = shutil.copy(noise, tmp_path / "copy.gguf")
        assert gguf.fingerprint(noise) == gguf.fingerprint(str(copy))

    @pytest.mark.parametrize(("old", "new"), [(b"general.name", b"general.nape"), (None, b"!")])
    def test_one_changed_byte_changes_it(self, noise: str, tmp_path: Path, old: bytes | None, new: bytes) -> None:
        data = Path(noise).read_bytes()
        changed = tmp_path / "changed.gguf"
        changed.write_bytes(data.replace(old, new) if old else data[:-1] + new)
        assert gguf.fingerprint(str(changed)) != gguf.fingerprint(noise)

    def test_the_size_counts_where_all_blocks_are_alike(self, tmp_path: Path) -> None:
        bare = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)
        for megabytes in (6, 7):
            (tmp_path / f"{megabytes}.gguf").write_bytes(bare + bytes(megabytes << 20))
        assert len({gguf.fingerprint(str(tmp_path / f"{n}.gguf")) for n in (6, 7)}) == 2

    def test_a_later_shard_counts(self, tmp_path: Path) -> None:
        ggufs.noise(tmp_path / "m.gguf", per_file=8)
        first, last = (str(tmp_path / f"m-0000{i}-of-00003.gguf") for i in (1, 3))
        before = gguf.fingerprint(first)
        Path(last).write_bytes(Path(last).read_bytes()[:-1] + b"\x55")
        assert gguf.fingerprint(first) != before


def test_importing_it_is_cheap() -> None:
    code = "import sys, localspec.gguf; print([m for m in ('numpy', 'llama_cpp', 'gguf') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Bytes that mean something to a reader of headers: counts, lengths and types, next to anything at all.
PIECES = st.one_of(
    st.sampled_from([0, 1, 2, 8, 9, 12, 31, 2**24, 2**31, 2**32 - 1, 2**63, 2**64 - 1]).map(
        lambda number: number.to_bytes(8, "little")
    ),
    st.sampled_from([0, 4, 8, 9, 13, 2**31]).map(lambda number: number.to_bytes(4, "little")),
    st.sampled_from([b"general.architecture", b"tokenizer.ggml.tokens", b"general.alignment", b"split.count"]).map(
        lambda key: len(key).to_bytes(8, "little") + key
    ),
    st.binary(max_size=40),
)


@given(body=st.lists(PIECES, max_size=60), version=st.sampled_from([2, 3, 4]))
def test_no_bytes_are_more_than_a_reason(
    body: list[bytes], version: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed.gguf"
    path.write_bytes(b"GGUF" + version.to_bytes(4, "little") + b"".join(body))
    for read in (gguf.read, gguf.outline, gguf.check):
        with suppress(ModelLoadError):
            read(str(path))
