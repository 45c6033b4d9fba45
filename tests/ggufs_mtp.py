"""Tiny models that predict several tokens ahead: prediction layers inside the file, beside it, or only claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests import ggufs
from tests.ggufs import Pieces, Random, Tensors, attention, bpe, dims, feed_forward, ones, prefixed, write

EMBD, HEADS, HEAD, FF = 64, 2, 32, 128
V = len(bpe().texts)
CLAIM = {"$.block_count": 3, "$.nextn_predict_layers": 1}


def prediction_layer(w: Random, block: str, *, gated: bool) -> Tensors:
    """One layer of a transformer on the pair (embedding of a token, state behind the token before it)."""
    tensors = attention(w, block, EMBD, HEADS, HEAD) | feed_forward(w, block, EMBD, FF)
    if gated:
        tensors[f"{block}.attn_q.weight"] = w(2 * HEADS * HEAD, EMBD)
    return tensors | prefixed(
        block,
        {
            "attn_norm.weight": ones(EMBD),
            "attn_q_norm.weight": ones(HEAD),
            "attn_k_norm.weight": ones(HEAD),
            "nextn.eh_proj.weight": w(EMBD, 2 * EMBD),
            "nextn.enorm.weight": ones(EMBD),
            "nextn.hnorm.weight": ones(EMBD),
        },
    )


def qwen35(path: Path, *, without: tuple[str, ...] = ()) -> Path:
    """A hybrid model with one prediction layer, or with the claim of one."""
    layer = prediction_layer(Random(31), "blk.2", gated=True)
    layer["blk.2.post_attention_norm.weight"] = ones(EMBD)
    return ggufs.hybrid(path, more=(CLAIM, {n: value for n, value in layer.items() if not n.endswith(without)}))


def qwen35_head(
    path: Path,
    *,
    pieces: Pieces | None = None,
    without: tuple[str, ...] = (),
    arch: str = "qwen35",
    extra: dict[str, Any] | None = None,
) -> Path:
    """The prediction layer alone, for a model without one. `without` some tensors it is of no use."""
    w, pieces = Random(32), pieces or bpe()
    tensors = prediction_layer(w, "blk.2", gated=True) | {"blk.2.post_attention_norm.weight": ones(EMBD)}
    tensors |= {"token_embd.weight": w(len(pieces.texts), EMBD), "output_norm.weight": ones(EMBD)}
    tensors = {name: value for name, value in tensors.items() if name not in without}
    keys = dims(EMBD, 3, HEADS, FF, 2048) | {
        **{"$.attention.key_length": HEAD, "$.attention.value_length": HEAD},
        "$.rope.dimension_count": HEAD,
        "$.rope.dimension_sections": [4, 4, 8, 0],
        **{"$.ssm.conv_kernel": 4, "$.ssm.state_size": 16, "$.ssm.group_count": 2},
        **{"$.ssm.time_step_rank": 4, "$.ssm.inner_size": 64},
        "$.full_attention_interval": 2,
        "$.nextn_predict_layers": 1,
    }
    return write(path, arch, keys | pieces.keys(add_bos=False) | dict(extra or {}), tensors)


def step35(
    path: Path, *, predicted: int = 3, other: int = -1, without: tuple[str, ...] = (), per_file: int = 0
) -> Path:
    """Windowed attention with several prediction layers, one for each token ahead. The one that is called `other` has
    other weights than it usually has; names that end like one of `without` are left out of these layers."""
    pieces, w, layers = bpe(), Random(33), 2
    tensors: Tensors = {"token_embd.weight": w(V, EMBD) * 5, "output_norm.weight": ones(EMBD)}
    tensors["output.weight"] = w(V, EMBD)
    for i in range(layers + predicted):
        block, ahead = f"blk.{i}", i - layers
        own = w if ahead < 0 else Random(99 if ahead == other else 40 + ahead)
        layer = prediction_layer(own, block, gated=False) | {f"{block}.ffn_norm.weight": ones(EMBD)}
        left_out = without if ahead >= 0 else ("eh_proj.weight", "enorm.weight", "hnorm.weight")
        tensors |= {name: value for name, value in layer.items() if not name.endswith(left_out)}
    keys = _step35_keys(EMBD, layers, predicted, HEADS, HEAD, FF)
    return write(path, "step35", keys | pieces.keys(add_bos=False), tensors, "Q8_0", per_file)


def knowing(path: Path, *cycle: int, predicted: int = 1) -> Path:
    """Writes a cycle of tokens for ever, and its prediction layers know how it goes on. All they look at is the state
    of the model at their own position, so they are wrong at once when they are handed that of another one."""
    pieces, silent, layers = ggufs.spm(), Random(0, scale=0.0), 2
    v = len(pieces.texts)
    embd, heads = -(-v // 32) * 32, 5
    step, eye = np.zeros((embd, embd), np.float32), np.eye(embd, dtype=np.float32)
    step[np.roll(cycle, -1), cycle] = 1
    tensors: Tensors = {"token_embd.weight": eye[:v], "output_norm.weight": ones(embd), "output.weight": step[:v]}
    for i in range(layers + predicted):
        block = f"blk.{i}"
        tensors |= attention(silent, block, embd, heads, embd // heads) | feed_forward(silent, block, embd, 32)
        tensors |= {f"{block}.attn_norm.weight": ones(embd), f"{block}.ffn_norm.weight": ones(embd)}
        if i >= layers:
            # The norm leaves the square root of the width at the place of a one-hot state.
            forward = np.concatenate((0 * eye, step / np.float32(np.sqrt(embd))), axis=1)
            tensors |= {f"{block}.nextn.{norm}.weight": ones(embd) for norm in ("enorm", "hnorm")}
            tensors[f"{block}.nextn.eh_proj.weight"] = forward
    keys = _step35_keys(embd, layers, predicted, heads, embd // heads, 32)
    return write(path, "step35", keys | pieces.keys(add_bos=False), tensors)


def _step35_keys(embd: int, layers: int, predicted: int, heads: int, head: int, ff: int) -> dict[str, Any]:
    return dims(embd, layers + predicted, heads, ff, 2048) | {
        **{"$.attention.key_length": head, "$.attention.value_length": head},
        "$.rope.dimension_count": head,
        "$.attention.sliding_window": 512,
        "$.attention.sliding_window_pattern": [i % 2 == 0 for i in range(layers + predicted)],
        "$.expert_feed_forward_length": 0,
        "$.nextn_predict_layers": predicted,
        "tokenizer.chat_template": ggufs.CHATML,
    }


def gemma4(path: Path, *, layers: int = 4) -> Path:
    """Windowed and full attention in turn, the last layer full."""
    pieces, w = bpe(), Random(34)
    tensors: Tensors = {"token_embd.weight": w(V, EMBD), "output_norm.weight": ones(EMBD)}
    for i in range(layers):
        tensors |= _gemma_layer(w, f"blk.{i}", EMBD) | {f"blk.{i}.attn_k_norm.weight": ones(HEAD)}
    keys = _gemma_keys(EMBD, layers) | {"tokenizer.chat_template": ggufs.CHATML}
    tensors["rope_freqs.weight"] = ones(HEAD // 2)
    return write(path, "gemma4", keys | pieces.keys(add_bos=False), tensors, "Q8_0")


def assistant(
    path: Path, *, target_width: int = EMBD, pieces: Pieces | None = None, extra: dict[str, Any] | None = None
) -> Path:
    """A drafter for `gemma4` that has no keys and values of its own: it reads those of the target's last layers."""
    pieces, w, embd, layers = pieces or bpe(), Random(35), 32, 2
    tensors: Tensors = {"token_embd.weight": w(len(pieces.texts), embd), "output_norm.weight": ones(embd)}
    tensors |= {"nextn.pre_projection.weight": w(embd, 2 * target_width)}
    tensors |= {"nextn.post_projection.weight": w(target_width, embd)}
    for i in range(layers):
        layer = _gemma_layer(w, f"blk.{i}", embd)
        tensors |= {name: value for name, value in layer.items() if "attn_k" not in name and "attn_v" not in name}
    keys = _gemma_keys(embd, layers) | {"$.nextn_predict_layers": layers, "$.embedding_length_out": target_width}
    tensors["rope_freqs.weight"] = ones(HEAD // 2)
    return write(path, "gemma4-assistant", keys | pieces.keys(add_bos=False) | dict(extra or {}), tensors, "Q8_0")


def _gemma_layer(w: Random, block: str, embd: int) -> Tensors:
    norms = ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
    tensors = attention(w, block, embd, HEADS, HEAD) | feed_forward(w, block, embd, FF)
    tensors |= {f"{block}.{norm}.weight": ones(embd) for norm in norms}
    return tensors | {f"{block}.attn_q_norm.weight": ones(HEAD), f"{block}.layer_output_scale.weight": ones(1)}


def _gemma_keys(embd: int, layers: int) -> dict[str, Any]:
    sizes = ("key_length", "value_length", "key_length_swa", "value_length_swa")
    return dims(embd, layers, HEADS, FF, 2048) | {
        **{f"$.attention.{size}": HEAD for size in sizes},
        **{"$.rope.dimension_count": HEAD, "$.rope.dimension_count_swa": HEAD},
        **{"$.attention.sliding_window": 32, "$.embedding_length_per_layer_input": 0},
        "$.attention.sliding_window_pattern": [i % 2 == 0 for i in range(layers)],
    }
