"""Files that are not a chat model, each with a part of the sentence that refuses it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

from tests import ggufs

Build = Callable[[Path], Path]  # writes into an empty folder


def damaged(change: Callable[[bytes], bytes]) -> Build:
    def build(folder: Path) -> Path:
        path = ggufs.noise(folder / "m.gguf")
        path.write_bytes(change(path.read_bytes()))
        return path

    return build


def built(**options: object) -> Build:
    return lambda folder: ggufs.noise(folder / "m.gguf", **options)  # type: ignore[arg-type]


def write(content: bytes) -> Build:
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


def pipe(folder: Path) -> Path:
    os.mkfifo(folder / "m.gguf")
    return folder / "m.gguf"


def renamed_shard(folder: Path) -> Path:
    ggufs.noise(folder / "m.gguf", per_file=8)
    return (folder / "m-00001-of-00003.gguf").rename(folder / "first.gguf")


def number(value: int) -> bytes:
    return struct.pack("<Q", value)


BAD: dict[str, tuple[Build, str]] = {
    "missing": (lambda folder: folder / "none.gguf", "there is no such file"),
    "directory": (lambda folder: folder, "it is a directory"),
    "pipe": (pipe, "it is a device or a pipe"),
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
    "epsilon": (built(extra={"llama.attention.layer_norm_rms_epsilon": float("nan")}), "epsilon is nan"),
    "negative epsilon": (built(extra={"llama.attention.layer_norm_rms_epsilon": -1.0}), "epsilon is -1.0"),
    "odd rotation": (built(extra={"llama.rope.dimension_count": 31}), "rotates 31 of 64 dimensions"),
    "wide rotation": (built(extra={"llama.rope.dimension_count": 2**31}), "rotates 2147483648 of 64"),
    "no rotation": (
        built(extra={"llama.rope.dimension_count": 0, "llama.rope.dimension_sections": [4, 4, 8, 0]}),
        "rotates 0 of 64",
    ),
    "no bytes": (built(extra={"tokenizer.ggml.model": "llama"}), "no piece for 162 of the 256 bytes"),
    "repeated piece": (built(pieces=ggufs.bpe(("same", "same", "ab", "ab"))), "'same' twice (2 such"),
    "missing shard": (without_a_shard, "1 of its 3 parts missing: m-00002-of-00003.gguf"),
    "short shard": (short_shard, "the file (m-00003-of-00003.gguf) is incomplete: its last 100 bytes"),
    "second shard": (second_shard, "it is part 2 of 3"),
    "renamed shard": (renamed_shard, "not named like one"),
}
