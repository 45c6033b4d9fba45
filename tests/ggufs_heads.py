"""Tiny draft heads, random like the `noise` that they draft for: real to llama.cpp, and wrong most of the time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests import ggufs
from tests.ggufs import Pieces, Random, Tensors, bpe, dims, feed_forward, ones, prefixed

MASK = 1  # <|im_start|> will do
V = len(bpe().texts)


def target(path: Path, **options: Any) -> Path:
    """Four layers of `noise` in Q8_0: with the default cache its logits don't depend on the width of a pass."""
    return ggufs.noise(path, **({"kind": "Q8_0", "layers": 4} | options))


def reduced(size: int, seed: int = 8) -> np.ndarray:
    """The target's ids of a reduced vocabulary, in no order."""
    return np.random.default_rng(seed).permutation(V)[:size].astype(np.int64)


def eagle3(
    path: Path,
    *,
    layers: tuple[int, ...] = (1, 2, 3),
    target_width: int = 64,
    embd: int = 64,
    own: bool = True,
    d2t: np.ndarray | None = None,
    pieces: Pieces | None = None,
    seed: int = 21,
    extra: Mapping[str, Any] | None = None,
    drop: str = "",
) -> Path:
    """With `own` False the embeddings and the output are the target's. The tensor `drop` is left out."""
    pieces, w = pieces or bpe(), Random(seed)
    tensors: Tensors = {"fc.weight": w(embd, 3 * target_width), "output_norm.weight": ones(embd)}
    tensors |= _layer(w, embd, 2, embd // 2) | feed_forward(w, "blk.0", embd, 128)
    tensors |= _vocabulary(w, pieces, embd, own, d2t)
    tensors.pop(drop, None)
    return _eagle3(path, tensors, pieces, layers, target_width, 2, dict(extra or {}))


def dflash(
    path: Path,
    *,
    layers: tuple[int, ...] = (1, 2, 3),
    embd: int = 64,
    own: bool = False,
    d2t: np.ndarray | None = None,
    markov: bool = False,
    block_size: int = 8,
    pieces: Pieces | None = None,
    seed: int = 22,
    extra: Mapping[str, Any] | None = None,
    drop: str = "",
) -> Path:
    """`markov` makes it a DSpark head. The tensor `drop` is left out."""
    pieces, heads, head, ff, w = pieces or bpe(), 2, embd // 2, 128, Random(seed)
    tensors: Tensors = {"fc.weight": w(embd, len(layers) * embd)}
    tensors |= {"enc.output_norm.weight": ones(embd), "output_norm.weight": ones(embd)}
    for block in ("blk.0", "blk.1"):
        tensors |= ggufs.attention(w, block, embd, heads, head) | feed_forward(w, block, embd, ff)
        tensors |= {f"{block}.{norm}.weight": ones(embd) for norm in ("attn_norm", "ffn_norm")}
        tensors |= {f"{block}.{norm}.weight": ones(head) for norm in ("attn_q_norm", "attn_k_norm")}
    tensors |= _vocabulary(w, pieces, embd, own, d2t)
    if markov:
        rows = len(pieces.texts) if d2t is None else d2t.size
        tensors |= {"markov_w1.weight": w(len(pieces.texts), 16), "markov_w2.weight": w(rows, 16) * 5}
    tensors.pop(drop, None)
    keys = dims(embd, 2, heads, ff, 2048) | {
        "$.target_layers": list(layers),
        "$.block_size": block_size,
        "tokenizer.ggml.mask_token_id": MASK,
        "$.rope.dimension_count": head,
    }
    return ggufs.write(path, "dflash", keys | pieces.keys(add_bos=False) | dict(extra or {}), tensors)


def _layer(w: Random, embd: int, heads: int, head: int) -> Tensors:
    """Attention reads the embedding of a token and the state side by side."""
    tensors = {f"attn_{m}.weight": w(heads * head, 2 * embd) for m in "qkv"}
    tensors |= {f"{norm}.weight": ones(embd) for norm in ("attn_norm", "attn_norm_2", "ffn_norm")}
    return prefixed("blk.0", tensors | {"attn_output.weight": w(embd, heads * head)})


def _eagle3(
    path: Path,
    tensors: Tensors,
    pieces: Pieces,
    layers: tuple[int, ...],
    target_width: int,
    heads: int,
    extra: dict[str, Any],
) -> Path:
    embd, ff = len(tensors["fc.weight"]), len(tensors["blk.0.ffn_up.weight"])
    keys = dims(embd, 1, heads, ff, 2048) | {
        "$.target_layers": list(layers),
        "$.target_hidden_size": target_width,
        "$.rope.dimension_count": embd // heads,
    }
    return ggufs.write(path, "eagle3", keys | pieces.keys(add_bos=False) | extra, tensors)


def _vocabulary(w: Random, pieces: Pieces, embd: int, own: bool, d2t: np.ndarray | None) -> Tensors:
    tensors: Tensors = {}
    v = len(pieces.texts)
    if own:
        tensors |= {"token_embd.weight": w(v, embd) * 5}
    if own or d2t is not None:
        output = w(v, embd)
        tensors |= {"output.weight": output if d2t is None else output[d2t % v]}
    return tensors if d2t is None else tensors | {"d2t": d2t}


HEADS: dict[str, Callable[[Path], Path]] = {
    "eagle3": eagle3,
    "eagle3_borrows": partial(eagle3, own=False),
    "eagle3_reduced": partial(eagle3, d2t=reduced(90)),
    "dflash": dflash,
    "dflash_own": partial(dflash, own=True),
    "dflash_reduced": partial(dflash, d2t=reduced(90)),
    "dflash_causal": partial(dflash, extra={"$.attention.causal": True}),
    "dflash_sections": partial(dflash, extra={"$.rope.dimension_sections": [16, 0, 0, 0]}),
    "dspark": partial(dflash, markov=True),
    "dspark_bonus": partial(dflash, markov=True, d2t=reduced(90), extra={"$.sample_from_anchor": False}),
}


def following(path: Path, *cycle: int) -> Path:
    """An EAGLE-3 head for `ggufs.chain` that knows a cycle of tokens by heart. All it looks at is the state of the
    target at its own position, so it is wrong at once when it is handed that of another one.

    The feed-forward part turns the state from one token into the next; attention adds nothing.
    """
    pieces = ggufs.spm()
    embd, heads = -(-len(pieces.texts) // 32) * 32, 5
    eye, root = np.eye(embd, dtype=np.float32), np.float32(np.sqrt(embd))
    step = np.zeros((embd, embd), np.float32)
    step[np.roll(cycle, -1), cycle] = 1
    hidden = root * root / (1 + np.exp(-root))  # what gate and up make of the norm of a one-hot state
    silent = Random(0, scale=0.0)
    tensors = _layer(silent, embd, heads, embd // heads) | {
        "fc.weight": np.concatenate((eye, 0 * eye, 0 * eye), axis=1),
        "blk.0.ffn_gate.weight": eye,
        "blk.0.ffn_up.weight": eye,
        "blk.0.ffn_down.weight": (step - eye) / hidden,
        "output_norm.weight": ones(embd),
        "output.weight": step[: len(pieces.texts)],
    }
    return _eagle3(path, tensors, pieces, (0, 0, 0), embd, heads, {})


def counting_eagle3(path: Path) -> Path:
    """For `ggufs.chain`: proposes the token that its rows have seen most often, whatever their states are.

    Attention looks at every row alike and hands on the embedding that stands in it.
    """
    pieces, embd, heads = ggufs.spm(), 320, 5
    eye, silent = np.eye(embd, dtype=np.float32), Random(0, scale=0.0)
    tensors = _layer(silent, embd, heads, embd // heads) | feed_forward(silent, "blk.0", embd, 32)
    tensors |= {
        "fc.weight": np.zeros((embd, 3 * embd), np.float32),
        "blk.0.attn_v.weight": np.concatenate((eye, 0 * eye), axis=1),
        "blk.0.attn_output.weight": eye,
        "output_norm.weight": ones(embd),
        "output.weight": eye[: len(pieces.texts)],
    }
    return _eagle3(path, tensors, pieces, (0, 0, 0), embd, heads, {})


def counting_dflash(path: Path) -> Path:
    """For `ggufs.chain`: proposes the token that stands most often in the text, the mask left out."""
    pieces, embd, heads = ggufs.spm(), 320, 5
    eye, silent = np.eye(embd, dtype=np.float32), Random(0, scale=0.0)
    unmasked = eye[: len(pieces.texts)].copy()
    unmasked[MASK] = 0
    tensors = ggufs.attention(silent, "blk.0", embd, heads, embd // heads)
    tensors |= feed_forward(silent, "blk.0", embd, 32) | {
        **{f"blk.0.attn_{m}.weight": eye for m in ("v", "output")},
        **{f"blk.0.{norm}.weight": ones(embd) for norm in ("attn_norm", "ffn_norm")},
        **{f"blk.0.attn_{m}_norm.weight": ones(embd // heads) for m in "qk"},
        **{"fc.weight": eye, "enc.output_norm.weight": ones(embd), "output_norm.weight": ones(embd)},
        "output.weight": unmasked,
    }
    keys = dims(embd, 1, heads, 32, 2048) | {
        "$.target_layers": [0],
        "$.block_size": 8,
        "tokenizer.ggml.mask_token_id": MASK,
        "$.rope.dimension_count": embd // heads,
    }
    return ggufs.write(path, "dflash", keys | pieces.keys(add_bos=False), tensors)
