"""What a model takes in memory, layer by layer: weights, cache and state, and the buffers that it computes in.

From the header of its file, exactly; from what a catalogue says, roughly. Opens headers only, and knows nothing of
the machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from localspec import gguf
from localspec.gguf import Header, Tensor

DEFAULT_CONTEXT = 8192  # the cache grows with the context; models allow far more than most machines hold
BLOCK = 32  # elements that every quantised cache type packs together
ROWS = 65  # of logits that one pass gives at most
BATCH = 512  # tokens that are read at once
CELLS = 256  # llama.cpp rounds a cache up to so many tokens
SNAPSHOTS = 8  # of recurrent state are asked for; llama.cpp grants none where it has no way to keep them
SLICES = 32  # layers that a model is thought to have, where nobody says

# Bytes for each element of a cache.
CACHE_BYTES = {"f32": 4.0, "f16": 2.0, "bf16": 2.0, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32}
CACHE_BYTES |= {"q4_1": 20 / 32, "q4_0": 18 / 32, "iq4_nl": 18 / 32}
_EMBEDDINGS = ("token_embd.weight", "per_layer_token_embd.weight")  # llama.cpp looks them up in host memory
# Architectures whose recurrent state llama.cpp keeps the last steps of.
STEPPING = {"qwen35", "qwen35moe", "qwen4exp", "deepseek4", "nemotron_h", "nemotron_h_moe", "lfm2", "lfm2moe"}
STEPPING |= {"kimi-k3", "glm5-next", "bailingmoe3"}


@dataclass(frozen=True, slots=True)
class Layer:
    """Bytes of weights and of recurrent state; elements of the K and the V cache for each token."""

    weights: int
    k: int = 0
    v: int = 0
    state: int = 0


@dataclass(frozen=True, slots=True)
class Footprint:
    """A model in bytes. `embedding` stays in host memory, `output` goes with the last layer; `rows` is what the
    widest pass computes in, `heads` how many scores it has for each pair of tokens without flash attention."""

    layers: tuple[Layer, ...]
    embedding: int = 0
    output: int = 0
    rows: int = 0
    heads: int = 0
    trained: int = 0  # the longest context, 0 where it is not known
    packable: bool = True  # whether the cache can be quantised
    exact: bool = True  # False: the layers are equal slices of a model that is not here
    has_cache: bool = True  # False: nothing is known of the cache, and it is not counted

    @property
    def weights(self) -> int:
        return self.embedding + self.output + sum(layer.weights for layer in self.layers)

    def layer(self, index: int, n_ctx: int, k: str, v: str) -> int:
        """All that one layer takes, its part of the cache included."""
        layer, cells = self.layers[index], ceil(n_ctx / CELLS) * CELLS
        cache = cells * (layer.k * CACHE_BYTES.get(k, 2.0) + layer.v * CACHE_BYTES.get(v, 2.0))
        return layer.weights + layer.state + ceil(cache)

    def buffers(self, n_ctx: int, *, flash: bool) -> int:
        """What a pass computes in: logits and activations, the mask, and scores where flash attention is off."""
        attends = any(layer.k for layer in self.layers)
        scores = 2 if flash else 4 * (self.heads + 1)
        return self.rows + (BATCH * n_ctx * scores if attends else 0)


def of_header(header: Header) -> Footprint:
    """Of a sound file, all its parts together."""
    tensors = list(header.tensors)
    for part in gguf.shards(header)[1:]:
        tensors += gguf.read(part).tensors
    blocks, named = Counter[int](), Counter[str]()
    for tensor in tensors:
        place = _block(tensor)
        if place is None:
            named[tensor.name] += tensor.nbytes
        else:
            blocks[place] += tensor.nbytes
    embedding = sum(named[name] for name in _EMBEDDINGS)
    output = named.total() - embedding
    if "output.weight" not in named:  # the embeddings stand in for it, as a second copy on a GPU
        output += named["token_embd.weight"]
    count = max([header.number("$.block_count"), *(place + 1 for place in blocks)])
    return _shaped(header, [blocks[i] for i in range(count)], embedding, output)


def of_outline(header: Header, size: int) -> Footprint:
    """Of a header without its tensors: the bytes are spread evenly over the layers."""
    known = header.number("$.block_count")
    count = min(known, gguf.MAX_LAYERS) if known > 0 else SLICES
    return replace(_shaped(header, [size // count] * count, 0, 0), exact=False, has_cache=known > 0)


def of_figures(size: int, kv_bytes_per_token: int | None, state_bytes: int = 0) -> Footprint:
    """Of a file that is not here. The cache in bytes of F16 for each token, the state without copies of it."""
    elements = (kv_bytes_per_token or 0) // 4 // SLICES
    layer = Layer(size // SLICES, elements, elements, state_bytes * (1 + SNAPSHOTS) // SLICES)
    rows = BATCH * 4 * 65_536  # what models of a few billion parameters take; small beside their weights
    known = kv_bytes_per_token is not None
    return Footprint((layer,) * SLICES, rows=rows, exact=False, has_cache=known)


def head_sizes(header: Header) -> frozenset[int]:
    """The K and V sizes per head, as far as the header knows them. Empty without attention."""
    keys = ("key_length", "value_length", "key_length_swa", "value_length_swa")
    named = frozenset(header.number(f"$.attention.{key}") for key in keys) - {0}
    heads = header.number("$.attention.head_count")
    explicit = all(header.number(f"$.attention.{key}") for key in keys[:2])
    return named if explicit or not heads else named | {header.number("$.embedding_length") // heads}


def is_packable(header: Header) -> bool:
    """Whether every head is made of whole blocks of a quantised cache."""
    sizes = head_sizes(header)
    return bool(sizes) and all(size % BLOCK == 0 for size in sizes)


def _shaped(header: Header, weights: Sequence[int], embedding: int, output: int) -> Footprint:
    width = header.number("$.embedding_length")
    inner = header.number("$.feed_forward_length") + 3 * header.number("$.ssm.inner_size")
    vocabulary = header.vocabulary.size if header.vocabulary else header.number("$.vocab_size", 128_000)
    return Footprint(
        layers=tuple(_layer(header, i, size, len(weights)) for i, size in enumerate(weights)),
        embedding=embedding,
        output=output,
        rows=4 * (ROWS * vocabulary + BATCH * 3 * (width + inner)),
        heads=header.number("$.attention.head_count"),
        trained=header.number("$.context_length"),
        packable=is_packable(header) and header.architecture != "grok",
    )


def _layer(header: Header, i: int, weights: int, count: int) -> Layer:
    own = count - header.number("$.nextn_predict_layers")  # those for multi-token prediction come last
    interval = header.number("$.full_attention_interval")
    state = _state(header)
    recurrent = (i + 1) % interval != 0 if interval else state > 0 and not _at(header, "attention.head_count_kv", i)
    if recurrent and i < own:
        return Layer(weights, state=state)
    if i >= count - header.number("$.attention.shared_kv_layers"):
        return Layer(weights)
    heads = _at(header, "attention.head_count_kv", i) or _at(header, "attention.head_count", i)
    both = state if header.architecture == "falcon-h1" else 0
    return Layer(weights, _head(header, "key", i) * heads, _head(header, "value", i) * heads, both)


def _head(header: Header, kind: str, i: int) -> int:
    heads = header.number("$.attention.head_count")
    plain = header.number(f"$.attention.{kind}_length") or header.number("$.embedding_length") // max(1, heads)
    windowed = header.number(f"$.attention.{kind}_length_swa")
    pattern = header.metadata.get(f"{header.architecture}.attention.sliding_window_pattern")
    if windowed and isinstance(pattern, tuple) and i < len(pattern):
        return windowed if pattern[i] else plain
    return max(plain, windowed)


def _state(header: Header) -> int:
    """Bytes of recurrent state in a layer that has any, with the copies that can be gone back to."""
    width, inner = header.number("$.embedding_length"), header.number("$.ssm.inner_size")
    size, groups = header.number("$.ssm.state_size"), header.number("$.ssm.group_count")
    kernel, short = header.number("$.ssm.conv_kernel"), header.number("$.shortconv.l_cache")
    elements = max(0, kernel - 1) * (inner + 2 * groups * size) + size * inner  # Mamba and gated delta nets
    elements += max(0, short - 1) * width  # LFM2
    if key := header.number("$.wkv.head_size"):  # RWKV
        elements += (2 + key) * width
    return 4 * elements * (1 + SNAPSHOTS if header.architecture in STEPPING else 1)


def _at(header: Header, key: str, i: int) -> int:
    value = header.metadata.get(f"{header.architecture}.{key}", 0)
    if isinstance(value, tuple):
        value = value[i] if i < len(value) else 0
    return int(value) if isinstance(value, int | float) else 0


def _block(tensor: Tensor) -> int | None:
    _, _, rest = tensor.name.partition("blk.")
    number = rest.partition(".")[0]
    return (
        int(number)
        if tensor.name.startswith("blk.") and number.isdigit() and int(number) < gguf.MAX_LAYERS
        else None
    )
