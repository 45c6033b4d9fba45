"""Tiny models that predict several tokens ahead: prediction layers inside the file, beside it, or only claimed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def qwen35(path: Path, *, seed: int = 31) -> Path:
    """A hybrid model with one prediction layer."""
    layer = prediction_layer(Random(seed), "blk.2", gated=True)
    layer["blk.2.post_attention_norm.weight"] = ones(EMBD)
    return ggufs.hybrid(path, more=layer, extra=CLAIM)


def qwen35_head(path: Path, *, seed: int = 32, pieces: Pieces | None = None, embd: int = EMBD) -> Path:
    """The prediction layer alone, for a model without one."""
    w, pieces = Random(seed), pieces or bpe()
    tensors = prediction_layer(w, "blk.2", gated=True) | {"blk.2.post_attention_norm.weight": ones(EMBD)}
    tensors |= {"token_embd.weight": w(len(pieces.texts), EMBD), "output_norm.weight": ones(EMBD)}
    keys = dims(embd, 3, HEADS, FF, 2048) | {
        **{"$.attention.key_length": HEAD, "$.attention.value_length": HEAD},
        "$.rope.dimension_count": HEAD,
        "$.rope.dimension_sections": [4, 4, 8, 0],
        **{"$.ssm.conv_kernel": 4, "$.ssm.state_size": 16, "$.ssm.group_count": 2},
        **{"$.ssm.time_step_rank": 4, "$.ssm.inner_size": 64},
        "$.full_attention_interval": 2,
        "$.nextn_predict_layers": 1,
    }
    return write(path, "qwen35", keys | pieces.keys(add_bos=False), tensors)


def step35(path: Path, *, predicted: int = 3) -> Path:
    """Windowed attention with several prediction layers, one for each token ahead."""
    pieces, w, layers = bpe(), Random(33), 2
    tensors: Tensors = {"token_embd.weight": w(V, EMBD) * 5, "output_norm.weight": ones(EMBD)}
    tensors["output.weight"] = w(V, EMBD)
    for i in range(layers + predicted):
        block = f"blk.{i}"
        tensors |= prediction_layer(w, block, gated=False) | {f"{block}.ffn_norm.weight": ones(EMBD)}
        if i < layers:
            tensors = {name: value for name, value in tensors.items() if not name.startswith(f"{block}.nextn")}
    keys = dims(EMBD, layers + predicted, HEADS, FF, 2048) | {
        **{"$.attention.key_length": HEAD, "$.attention.value_length": HEAD},
        "$.rope.dimension_count": HEAD,
        "$.attention.sliding_window": 512,
        "$.attention.sliding_window_pattern": [i % 2 == 0 for i in range(layers + predicted)],
        "$.expert_feed_forward_length": 0,
        "$.nextn_predict_layers": predicted,
        "tokenizer.chat_template": ggufs.CHATML,
    }
    return write(path, "step35", keys | pieces.keys(add_bos=False), tensors)


def gemma4(path: Path, *, layers: int = 4) -> Path:
    """Windowed and full attention in turn, the last layer full."""
    pieces, w = bpe(), Random(34)
    tensors: Tensors = {"token_embd.weight": w(V, EMBD), "output_norm.weight": ones(EMBD)}
    for i in range(layers):
        tensors |= _gemma_layer(w, f"blk.{i}", EMBD) | {f"blk.{i}.attn_k_norm.weight": ones(HEAD)}
    keys = _gemma_keys(EMBD, layers) | {"tokenizer.chat_template": ggufs.CHATML}
    return write(
        path, "gemma4", keys | pieces.keys(add_bos=False), tensors | {"rope_freqs.weight": ones(HEAD // 2)}
    )


def assistant(path: Path, *, embd: int = 32, layers: int = 2, target_width: int = EMBD) -> Path:
    """A drafter for `gemma4` that has no keys and values of its own: it reads those of the target's last layers."""
    pieces, w = bpe(), Random(35)
    tensors: Tensors = {"token_embd.weight": w(V, embd), "output_norm.weight": ones(embd)}
    tensors |= {"nextn.pre_projection.weight": w(embd, 2 * target_width)}
    tensors |= {"nextn.post_projection.weight": w(target_width, embd)}
    for i in range(layers):
        layer = _gemma_layer(w, f"blk.{i}", embd)
        tensors |= {name: value for name, value in layer.items() if "attn_k" not in name and "attn_v" not in name}
    keys = _gemma_keys(embd, layers) | {"$.nextn_predict_layers": layers, "$.embedding_length_out": target_width}
    keys = keys | pieces.keys(add_bos=False)
    return write(path, "gemma4-assistant", keys, tensors | {"rope_freqs.weight": ones(HEAD // 2)})


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
