"""Headers: what a good file is, and the one sentence for each bad one."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from gguf import GGUFReader

from localspec import gguf
from localspec.errors import ModelLoadError
from tests import ggufs
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


def damaged(change: Callable[[bytes], bytes]) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        path = ggufs.noise(folder / "m.gguf")
        path.write_bytes(change(path.read_bytes()))
        return path

    return build


def built(**options: object) -> Callable[[Path], Path]:
    return lambda folder: ggufs.noise(folder / "m.gguf", **options)  # type: ignore[arg-type]


def write(content: bytes) -> Callable[[Path], Path]:
    def build(folder: Path) -> Path:
        path = folder / "m.gguf"
        path.write_bytes(content)
        return path

    return build


def without_a_shard(folder: Path) -> Path:
    ggufs.noise(folder / "m.gguf", per_file=8)
    (folder / "m-00002-of-00003.gguf").unlink()
    return folder / "m-00001-of-00003.gguf"


def short_shard(folder: Path) -> Path:
    ggufs.noise(folder / "m.gguf", per_file=8)
    part = folder / "m-00003-of-00003.gguf"
    part.write_bytes(part.read_bytes()[:-100])
    return folder / "m-00001-of-00003.gguf"


def second_shard(folder: Path) -> Path:
    ggufs.noise(folder / "m.gguf", per_file=8)
    return folder / "m-00002-of-00003.gguf"


def renamed_shard(folder: Path) -> Path:
    ggufs.noise(folder / "m.gguf", per_file=8)
    return (folder / "m-00001-of-00003.gguf").rename(folder / "first.gguf")


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


BAD = {
    "missing": (lambda folder: folder / "none.gguf", "there is no such file"),
    "directory": (lambda folder: folder, "it is a directory"),
    "empty": (write(b""), "the file is empty"),
    "html": (write(b"\n<!DOCTYPE html><html></html>"), "it is a web page"),
    "git lfs": (write(b"version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer"),
    "zip": (write(b"PK\x03\x04" + bytes(100)), "zip archive"),
    "ggml": (write(b"tjgg" + bytes(100)), "before GGUF"),
    "zeros": (write(bytes(4096)), "does not begin with GGUF"),
    "text": (write(b"{}"), "does not begin with GGUF"),
    "magic": (damaged(lambda d: b"GGUX" + d[4:]), "does not begin with GGUF"),
    "magic only": (write(b"GGUF"), "ends inside its header"),
    "first bytes": (write(b"GG"), "ends inside its header"),
    "version 1": (damaged(lambda d: d[:4] + struct.pack("<I", 1) + d[8:]), "GGUF version 1;"),
    "version 9": (damaged(lambda d: d[:4] + struct.pack("<I", 9) + d[8:]), "GGUF version 9;"),
    "big endian": (damaged(lambda d: d[:4] + struct.pack(">I", 3) + d[8:]), "big-endian"),
    "100 bytes": (damaged(lambda d: d[:100]), "ends inside its header"),
    "half": (damaged(lambda d: d[: len(d) // 2]), "bytes are missing"),
    "minus 64": (damaged(lambda d: d[:-64]), "its last 64 bytes are missing"),
    "absurd tensors": (damaged(lambda d: d[:8] + number(2**40) + d[16:]), "claims 1,099,511,627,776 tensors"),
    "absurd keys": (damaged(lambda d: d[:16] + number(2**63) + d[24:]), "keys: it is damaged"),
    "absurd key length": (damaged(lambda d: d[:24] + number(2**64 - 1) + d[32:]), "ends inside its header"),
    "alignment": (built(extra={"general.alignment": 33}), "alignment is 33"),
    "adapter": (built(extra={"general.type": "adapter"}), "LoRA adapter"),
    "projector": (built(extra={"general.type": "mmproj"}), "projector"),
    "clip": (built(arch="clip"), "projector"),
    "head": (built(arch="eagle3"), "draft head (eagle3)"),
    "embedding": (built(extra={"llama.attention.causal": False}), "embedding model"),
    "no tokenizer": (built(extra={"tokenizer.ggml.model": "no_vocab"}), "no tokenizer"),
    "no layers": (built(layers=0), "claims 0 layers"),
    "many layers": (built(extra={"llama.block_count": 513}), "claims 513 layers"),
    "experts": (built(extra={"llama.expert_used_count": 2}), "uses 2 of 0 experts"),
    "groups": (
        built(
            extra={"llama.expert_count": 8, "llama.expert_used_count": 2, "llama.expert_group_count": 3},
        ),
        "8 experts into 3 groups",
    ),
    "prediction": (built(extra={"llama.nextn_predict_layers": 3}), "more prediction layers than layers"),
    "scaling": (built(extra={"llama.rope.scaling.type": "weird"}), "scales positions by 'weird'"),
    "repeated piece": (built(pieces=ggufs.bpe(("same", "same", "ab", "ab"))), "'same' twice (2 such"),
    "missing shard": (without_a_shard, "1 of its 3 parts missing: m-00002-of-00003.gguf"),
    "short shard": (short_shard, "the file (m-00003-of-00003.gguf) is incomplete: its last 100 bytes"),
    "second shard": (second_shard, "it is part 2 of 3"),
    "renamed shard": (renamed_shard, "not named like one"),
}


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
