"""Tiny GGUF files, written on the fly: small enough to load in milliseconds, real enough for llama.cpp.

`chain` is an exact first-order Markov chain, so every probability is known; it sees only the last token, so it
can't show a damaged cache. `noise` and the other random models depend on the whole context: use them for caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.quants import quantize

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "syntax_error": "{% for m in messages %}{{ m.content }",
    "unknown_filter": "{% for m in messages %}{{ m.content | no_such_filter }}{% endfor %}",
    "rejects_system": (
        "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
    ),
    "prints_bos": "{{ bos_token }}" + CHATML,
    "huge_loop": "{% for i in range(100000000) %}x{% endfor %}",
}
KINDS = {bool: "bool", int: "uint32", float: "float32", str: "string", list: "array"}
Tensors = dict[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Pieces:
    """A vocabulary as GGUF stores it. `bos`, `eos` are ids."""

    model: str
    texts: tuple[str, ...]
    kinds: tuple[int, ...]  # 1 normal, 2 unknown, 3 control, 6 byte
    bos: int
    eos: int
    merges: tuple[str, ...] = ()

    def keys(self, add_bos: bool) -> dict[str, Any]:
        keys: dict[str, Any] = {
            "tokenizer.ggml.model": self.model,
            "tokenizer.ggml.tokens": [t.encode() for t in self.texts],
            "tokenizer.ggml.token_type": list(self.kinds),
            "tokenizer.ggml.bos_token_id": self.bos,
            "tokenizer.ggml.eos_token_id": self.eos,
            "tokenizer.ggml.add_bos_token": add_bos,
        }
        if self.merges:
            return keys | {"tokenizer.ggml.merges": list(self.merges), "tokenizer.ggml.pre": "gpt-2"}
        scores = [-float(i) for i in range(len(self.texts))]
        return keys | {"tokenizer.ggml.scores": scores, "tokenizer.ggml.add_space_prefix": False}


def bpe(extra: tuple[str, ...] = ()) -> Pieces:
    """Byte-level BPE with every byte: any UTF-8 text comes back as it went in. Byte b is token 3 + b."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    letters = [chr(b if b in printable else next(others)) for b in range(256)]
    merges = ("t h", "th e", "Ġ the", "i n", "e r", "a n")
    specials = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    texts = (*specials, *letters, *(m.replace(" ", "") for m in merges), *extra)
    kinds = (3,) * 3 + (1,) * (len(texts) - 3)
    return Pieces("gpt2", texts, kinds, bos=0, eos=2, merges=merges)


def spm(controls: tuple[str, ...] = (), extra: tuple[str, ...] = ()) -> Pieces:
    """Sentencepiece style: byte b is token 3 + b, then letters and a few words; `controls` and `extra` at the end."""
    letters = [chr(c) for c in range(97, 123)]
    words = ["▁", *letters, *("▁" + c for c in letters), "▁the", "▁cat", "ing", "th", "ll", "er", "▁is", "on"]
    texts = ("<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), *words, *controls, *extra)
    kinds = (2, 3, 3) + (6,) * 256 + (1,) * len(words) + (3,) * len(controls) + (1,) * len(extra)
    return Pieces("llama", texts, kinds, bos=1, eos=2)


def write(
    path: Path, arch: str, keys: Mapping[str, Any], tensors: Tensors, kind: str = "F32", per_file: int = 0
) -> Path:
    """`kind` is the type of the matrices ("F32", "F16", "Q8_0", "Q4_0"); vectors and convolutions stay F32.
    With `per_file` tensors in each, the files are named path-00001-of-0000N.gguf."""
    writer = gguf.GGUFWriter(path, arch, split_max_tensors=per_file)
    for key, value in keys.items():
        getattr(writer, f"add_{KINDS[type(value)]}")(key.replace("$", arch), value)
    dtype = gguf.GGMLQuantizationType[kind]
    for name, value in tensors.items():
        matrix = value.ndim == 2 and not name.split(".")[-2].startswith("ssm") and kind != "F32"
        data = quantize(value, dtype) if matrix else value
        writer.add_tensor(name, data, raw_dtype=dtype if matrix else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def dims(embd: int, layers: int, heads: int, ff: int, ctx: int) -> dict[str, Any]:
    return {
        "$.context_length": ctx,
        "$.embedding_length": embd,
        "$.block_count": layers,
        "$.feed_forward_length": ff,
        "$.attention.head_count": heads,
        "$.attention.layer_norm_rms_epsilon": 1e-6,
    }


class Random:
    """Normal weights, reproducible. Norms are ones."""

    def __init__(self, seed: int, scale: float = 0.2) -> None:
        self._rng = np.random.default_rng(seed)
        self._scale = scale

    def __call__(self, *shape: int) -> np.ndarray:
        return (self._rng.normal(size=shape) * self._scale).astype(np.float32)


def ones(n: int) -> np.ndarray:
    return np.ones(n, np.float32)


def prefixed(block: str, tensors: Tensors) -> Tensors:
    return {f"{block}.{name}": value for name, value in tensors.items()}


def attention(w: Random, block: str, embd: int, heads: int, head: int) -> Tensors:
    size = heads * head
    return {f"{block}.attn_{m}.weight": w(size, embd) for m in "qkv"} | {
        f"{block}.attn_output.weight": w(embd, size)
    }


def feed_forward(w: Random, block: str, embd: int, ff: int) -> Tensors:
    up, gate, down = w(ff, embd), w(ff, embd), w(embd, ff)
    return prefixed(block, {"ffn_up.weight": up, "ffn_gate.weight": gate, "ffn_down.weight": down})


def noise(
    path: Path,
    *,
    kind: str = "F32",
    seed: int = 1,
    template: str | None = CHATML,
    add_bos: bool = False,
    pieces: Pieces | None = None,
    layers: int = 2,
    ctx: int = 2048,
    head: int = 32,
    arch: str = "llama",
    extra: Mapping[str, Any] | None = None,
    per_file: int = 0,
) -> Path:
    """A random llama with a byte-level vocabulary: its text depends on all that came before."""
    pieces, heads, ff = pieces or bpe(), 2, 128
    embd, v, w = heads * head, len(pieces.texts), Random(seed)
    tensors: Tensors = {"token_embd.weight": w(v, embd) * 5, "output_norm.weight": ones(embd)}
    tensors["output.weight"] = w(v, embd)
    for i in range(layers):
        block = f"blk.{i}"
        tensors |= {f"{block}.attn_norm.weight": ones(embd), f"{block}.ffn_norm.weight": ones(embd)}
        tensors |= attention(w, block, embd, heads, head) | feed_forward(w, block, embd, ff)
    keys = dims(embd, layers, heads, ff, ctx) | {"$.rope.dimension_count": head} | pieces.keys(add_bos)
    if template is not None:
        keys["tokenizer.chat_template"] = template
    return write(path, arch, {"general.name": "noise"} | keys | dict(extra or {}), tensors, kind, per_file)


def window(path: Path, *, size: int = 16, layers: int = 2, kind: str = "F32") -> Path:
    """gemma3 with a sliding window of `size` tokens in every layer (of six, only the last sees everything)."""
    pieces, embd, heads, head, ff, w = bpe(), 64, 2, 32, 128, Random(3)
    tensors: Tensors = {"token_embd.weight": w(len(pieces.texts), embd), "output_norm.weight": ones(embd)}
    for i in range(layers):
        block = f"blk.{i}"
        for norm in ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"):
            tensors[f"{block}.{norm}.weight"] = ones(embd)
        tensors |= {f"{block}.attn_q_norm.weight": ones(head), f"{block}.attn_k_norm.weight": ones(head)}
        tensors |= attention(w, block, embd, heads, head) | feed_forward(w, block, embd, ff)
    keys = dims(embd, layers, heads, ff, 2048) | {
        **{"$.attention.key_length": head, "$.attention.value_length": head},
        "$.attention.sliding_window": size,
        "tokenizer.chat_template": CHATML,
    }
    return write(path, "gemma3", keys | pieces.keys(add_bos=False), tensors, kind)


def recur(path: Path, *, layers: int = 2) -> Path:
    """mamba: one state per sequence, so its cache can only be cleared as a whole."""
    pieces, embd, state, kernel, rank, w = bpe(), 32, 8, 4, 2, Random(4)
    inner = 2 * embd
    tensors: Tensors = {"token_embd.weight": w(len(pieces.texts), embd), "output_norm.weight": ones(embd)}
    for i in range(layers):
        tensors |= prefixed(
            f"blk.{i}",
            {
                "attn_norm.weight": ones(embd),
                "ssm_in.weight": w(2 * inner, embd),
                "ssm_conv1d.weight": w(inner, kernel),
                "ssm_conv1d.bias": w(inner),
                "ssm_x.weight": w(rank + 2 * state, inner),
                "ssm_dt.weight": w(inner, rank),
                "ssm_dt.bias": w(inner),
                "ssm_a": -np.abs(w(inner, state)) - 0.1,
                "ssm_d": w(inner),
                "ssm_out.weight": w(embd, inner),
            },
        )
    keys = dims(embd, layers, 0, 0, 2048) | {
        **{"$.ssm.conv_kernel": kernel, "$.ssm.state_size": state},
        **{"$.ssm.time_step_rank": rank, "$.ssm.inner_size": inner},
        "tokenizer.chat_template": CHATML,
    }
    return write(path, "mamba", keys | pieces.keys(add_bos=False), tensors)


def hybrid(path: Path, *, layers: int = 2, more: tuple[dict[str, Any], Tensors] = ({}, {})) -> Path:
    """qwen35: recurrent layers and (every second one) attention; llama.cpp can step its state back a few tokens."""
    pieces, embd, heads, head, ff, w = bpe(), 64, 2, 32, 128, Random(5)
    state, groups, rank, kernel, interval = 16, 2, 4, 4, 2
    inner, channels = state * rank, 2 * state * groups + state * rank
    tensors: Tensors = {"token_embd.weight": w(len(pieces.texts), embd), "output_norm.weight": ones(embd)}
    for i in range(layers):
        block = f"blk.{i}"
        tensors |= feed_forward(w, block, embd, ff)
        tensors |= {f"{block}.attn_norm.weight": ones(embd), f"{block}.post_attention_norm.weight": ones(embd)}
        if (i + 1) % interval == 0:
            tensors |= attention(w, block, embd, heads, head)
            tensors[f"{block}.attn_q.weight"] = w(2 * heads * head, embd)
            tensors |= {f"{block}.attn_q_norm.weight": ones(head), f"{block}.attn_k_norm.weight": ones(head)}
            continue
        tensors |= prefixed(
            block,
            {
                "attn_qkv.weight": w(channels, embd),
                "attn_gate.weight": w(inner, embd),
                "ssm_conv1d.weight": w(channels, kernel),
                "ssm_dt.bias": w(rank),
                "ssm_a": -np.abs(w(rank)) - 0.1,
                "ssm_beta.weight": w(rank, embd),
                "ssm_alpha.weight": w(rank, embd),
                "ssm_norm.weight": ones(state),
                "ssm_out.weight": w(embd, inner),
            },
        )
    keys = dims(embd, layers, heads, ff, 2048) | {
        **{"$.attention.key_length": head, "$.attention.value_length": head},
        "$.rope.dimension_count": head,
        "$.rope.dimension_sections": [4, 4, 8, 0],
        **{"$.ssm.conv_kernel": kernel, "$.ssm.state_size": state, "$.ssm.group_count": groups},
        **{"$.ssm.time_step_rank": rank, "$.ssm.inner_size": inner},
        "$.full_attention_interval": interval,
        "tokenizer.chat_template": CHATML,
    }
    return write(path, "qwen35", keys | pieces.keys(add_bos=False) | more[0], tensors | more[1])


Table = Mapping[int, Mapping[int, float]]


def chain(
    path: Path, table: Table, *, ctx: int = 512, template: str | None = None, pieces: Pieces | None = None
) -> Path:
    """P(next | last token) is exactly `table[last]`; a token without a row is followed by the end token."""
    pieces = pieces or spm()
    v = len(pieces.texts)
    embd, heads = -(-v // 32) * 32, 5  # heads of 64: the q8_0 cache needs a multiple of 32
    logits = np.full((v, embd), -30.0, np.float32)
    for last in range(v):
        for following, probability in table.get(last, {pieces.eos: 1.0}).items():
            logits[following, last] = np.log(probability)
    # The one-hot embedding leaves the final norm as sqrt(embd) at its own place: hence the division.
    tensors: Tensors = {
        "token_embd.weight": np.eye(v, embd, dtype=np.float32),
        "output_norm.weight": ones(embd),
        "output.weight": logits / np.float32(np.sqrt(embd)),
        "blk.0.attn_norm.weight": ones(embd),
        "blk.0.ffn_norm.weight": ones(embd),
    }
    silent = Random(0, scale=0.0)
    tensors |= attention(silent, "blk.0", embd, heads, embd // heads) | feed_forward(silent, "blk.0", embd, 32)
    keys = dims(embd, 1, heads, 32, ctx) | {"$.rope.dimension_count": embd // heads} | pieces.keys(add_bos=True)
    if template is not None:
        keys["tokenizer.chat_template"] = template
    return write(path, "llama", {"general.name": "chain"} | keys, tensors)


def one_way(*tokens: int) -> Table:
    """Each token is followed by the next with certainty."""
    return {a: {b: 1.0} for a, b in pairwise(tokens)}


def emoji(path: Path, *, template: str | None = None) -> Path:
    """Begin -> the four bytes of a grinning face, one token each -> end."""
    face = [3 + b for b in "😀".encode()]
    return chain(path, one_way(1, *face, 2), template=template)
