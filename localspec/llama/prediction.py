"""Layers for multi-token prediction (MTP): whether a file has them, and whether llama.cpp can run them here.

They come inside the file of a model, in a file of their own, or as a small drafter that reads the cache of its target.
Decided from the headers, before any native call: llama.cpp believes what a header claims, and ends the process where
the tensors are not there.
"""

from __future__ import annotations

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.gguf import Header
from localspec.llama import hidden
from localspec.llama.heads import Head, depth, vocabulary_misfit

# Architectures whose prediction layers llama.cpp can run: only one, or one for each token ahead.
_ONE = frozenset(
    [
        *("qwen35", "qwen35moe", "qwen3next", "deepseek2", "deepseek32", "deepseek4", "glm-dsa", "cohere2moe"),
        *("nemotron_h_moe", "bailingmoe3"),
    ]
)
_SEVERAL = frozenset(["step35", "mimo2", "glm4moe", "hy_v3"])
_SHARING = {"gemma4-assistant": "gemma4"}  # a drafter without a cache of its own, and its target
_NO_TIES = frozenset(["step35", "mimo2", "deepseek4"])  # embeddings can't stand in for a missing output there
_NEEDED = ("eh_proj", "enorm", "hnorm")
_SAME = (
    *("attention.key_length", "attention.key_length_swa", "attention.value_length", "attention.value_length_swa"),
    *("attention.sliding_window", "rope.dimension_count", "rope.dimension_count_swa"),
)


def trouble(model: Header) -> str | None:
    """Why the file's own layers can't draft, as a sentence without its end; None when they can."""
    return hidden.missing("mtp") or _fault(model)


def own(model: Header) -> Head:
    """The prediction layers of a model without `trouble`."""
    return _head(model, model)


def are_missing(model: Header) -> bool:
    """Whether the header claims layers of which the file has nothing at all."""
    layers, names = model.number("$.nextn_predict_layers"), _names(model)
    blocks = tuple(f"blk.{i}." for i in range(depth(model), depth(model) + layers))
    return layers > 0 and not any(name.startswith(blocks) for name in names)


def without(model: Header) -> dict[str, int]:
    """What its header would say of the same model without prediction layers."""
    arch = model.architecture
    return {f"{arch}.block_count": depth(model), f"{arch}.nextn_predict_layers": 0}


def fit(path: str, target: Header) -> Head:
    """The layers in a file of their own, if they can draft for this target; else a ModelLoadError with the reason."""
    head = gguf.read(path)
    if error := gguf.damage(head):
        raise error
    if gguf.misfit(head) is None:
        raise ModelLoadError(path, "it is a whole model, not a file of prediction layers", "Use it as the model.")
    if reason := hidden.missing("mtp") or fault(head):
        raise ModelLoadError(path, reason, "Look for another GGUF version of this head.")
    if reason := _misfit(head, target):
        raise ModelLoadError(path, reason, "Use the model that these layers were trained with.")
    return _head(head, target)


def fault(head: Header) -> str | None:
    """Why a file of layers alone can draft for no target."""
    return _fault(head) or _lack(head)


def target_architecture(head: Header) -> str:
    return _SHARING.get(head.architecture, head.architecture)


def target_width(head: Header) -> int:
    return head.number("$.embedding_length_out" if is_sharing(head) else "$.embedding_length")


def is_sharing(head: Header) -> bool:
    """Whether it reads the cache of its target and writes none."""
    return head.architecture in _SHARING


def _head(header: Header, target: Header) -> Head:
    layers = header.number("$.nextn_predict_layers")
    longest = layers if layers > 1 and not is_sharing(header) else None
    return Head(header, "mtp", (depth(target),), target.number("$.embedding_length"), longest)


def _fault(header: Header) -> str | None:
    layers, arch = header.number("$.nextn_predict_layers"), header.architecture
    if layers < 1:
        return "the file carries no layers for multi-token prediction"
    if is_sharing(header):
        return None
    if arch not in _ONE | _SEVERAL:
        return f"llama.cpp can't run the prediction layers of a {arch!r} model"
    if layers > 1 and arch in _ONE:
        return f"the file has {layers} prediction layers, and llama.cpp runs only one of a {arch!r} model"
    names, first = _names(header), depth(header)
    blocks = range(first, first + layers)
    if not all(f"blk.{i}.nextn.{tensor}.weight" in names for i in blocks for tensor in _NEEDED):
        claimed = "a prediction layer, but its" if layers == 1 else f"{layers} prediction layers, but their"
        return f"the file claims {claimed} tensors are not in it"
    return None


def _lack(head: Header) -> str | None:
    """A file of layers alone must bring what llama.cpp takes from the rest of a model."""
    if is_sharing(head):
        return None
    names, first = _names(head), depth(head)
    blocks = range(first, first + head.number("$.nextn_predict_layers"))

    def in_each(tensor: str) -> bool:
        return all(f"blk.{i}.nextn.{tensor}.weight" in names for i in blocks)

    if "token_embd.weight" not in names:
        return "it has no embeddings of its own"
    if head.architecture in _NO_TIES and "output.weight" not in names and not in_each("shared_head_head"):
        return "it has no output of its own"
    if "output_norm.weight" not in names and not in_each("shared_head_norm"):
        return "it lacks the norm before its output"
    return None


def _misfit(head: Header, target: Header) -> str | None:
    sharing, arch, wanted = is_sharing(head), target.architecture, target_architecture(head)
    if arch != wanted:
        return f"it was trained with a {wanted!r} model, and {target.name} is a {arch!r} model"
    width, theirs = target_width(head), target.number("$.embedding_length")
    if width != theirs:
        return f"it was trained with a model of width {width}, and {target.name} has {theirs}"
    if sharing and (reason := _other_cache(head, target)):
        return reason
    return vocabulary_misfit(head, target)


def _other_cache(head: Header, target: Header) -> str | None:
    """It reads the last full and the last windowed layer of the target, which llama.cpp takes for granted."""
    if any(head.number(f"$.{key}") != target.number(f"$.{key}") for key in _SAME):
        return f"the cache of {target.name} has another shape than it was trained with"
    layers, windowed = depth(target), _each(target, "attention.sliding_window_pattern")
    if layers < 2 or windowed[layers - 2 : layers] != (True, False):
        return f"the last two layers of {target.name} are not a windowed and a full one"
    theirs, ours = (_each(header, "attention.head_count_kv") for header in (target, head))
    for windows, own_heads in zip(_each(head, "attention.sliding_window_pattern"), ours, strict=False):
        if own_heads != theirs[layers - 2 if windows else layers - 1]:
            return f"the cache of {target.name} has another number of heads than it was trained with"
    return None


def _each(header: Header, key: str) -> tuple[float | bool, ...]:
    """The value for each layer, where one value may stand for all. Heads are as many as keys by default."""
    value = header.metadata.get(f"{header.architecture}.{key}", header.number("$.attention.head_count"))
    if isinstance(value, tuple):
        return value
    return (value if isinstance(value, int | float) else 0,) * header.number("$.block_count")


def _names(header: Header) -> frozenset[str]:
    """Of the tensors in all parts of the file: prediction layers are in the last one."""
    parts = (header if path == header.path else gguf.read(path) for path in gguf.shards(header))
    return frozenset(tensor.name for part in parts for tensor in part.tensors)
