"""Draft heads: what a head file is, and which target it fits. Decided from the two headers, before any native call.

A head reads a target's hidden states, so it fits only the model that it was trained on, or one of the same shape.
llama.cpp ends the process on most of what is refused here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.gguf import Header, Tensor
from localspec.llama import hidden

KINDS = ("eagle3", "dflash")  # the architecture of a head file is also the name of its method

# Architectures whose graphs hand out what enters a layer. On any other one, asking for it ends the process.
TAPPED = frozenset(
    [
        "llama",
        "qwen3",
        "qwen3moe",
        "qwen3next",
        "qwen35",
        "qwen35moe",
        "qwen4exp",
        "gpt-oss",
        "gemma4",
        "hunyuan-dense",
        "hunyuan_vl",
        "lfm2",
        "lfm2moe",
        "mimo2",
        "minimax-01",
        "minimax-m2",
        "muse-glimmer",
        "nanbeige",
        "nemotron_h",
        "nemotron_h_moe",
        "deepseek4",
        "bailingmoe3",
    ]
)
# Those that also hand out what leaves the last layer, in the way in which each kind of head asks for it.
_TAPPED_BEHIND = {
    "eagle3": frozenset(
        [
            "qwen3next",
            "qwen35",
            "qwen35moe",
            "gpt-oss",
            "gemma4",
            "mimo2",
            "nemotron_h",
            "nemotron_h_moe",
            "bailingmoe3",
        ]
    ),
    "dflash": frozenset(["mimo2", "nemotron_h", "nemotron_h_moe", "deepseek4"]),
}
_I64 = 27  # ggml's number
_SAME = 0.99  # of the pieces: fine-tuned models rename a few special tokens, which can't hurt more than acceptance

_OTHER_FILE = "Look for another GGUF version of this head."
_OTHER_TARGET = "Use the model that this head was trained for."


@dataclass(frozen=True, slots=True)
class Head:
    """A sound head file. `layers` are the target's layers whose inputs it reads, each `width` numbers per token;
    `longest` is the most tokens that it can draft at once, None where there is no limit."""

    header: Header
    kind: str
    layers: tuple[int, ...]
    width: int
    longest: int | None

    @property
    def causal(self) -> bool:
        """Whether a row sees only what is before it. The masks of a block see each other, unless the file denies it."""
        return self.kind != "dflash" or self.header.metadata.get("dflash.attention.causal", False) is True

    def too_long(self, draft_tokens: int) -> str | None:
        """What to tell someone who asked for longer drafts than the head can write."""
        if self.longest is None or draft_tokens <= self.longest:
            return None
        if self.kind == "mtp":
            why = f"the model has {self.longest} prediction layers, one for each token."
        else:
            why = f"this {self.kind} head was trained on blocks of {block_size(self.header)} tokens."
        return f"Draft length {draft_tokens} is clamped to {self.longest}: {why}"


def fit(path: str, target: Header) -> Head:
    """The head, if it can draft for this target on this build; else a ModelLoadError with the reason."""
    head = read(path)
    if reason := hidden.missing(head.kind):
        raise ModelLoadError(
            path, reason, "Reinstall the llama-cpp-python that localspec names, or use another --method."
        )
    if reason := misfit(head, target):
        raise ModelLoadError(path, reason, _OTHER_TARGET)
    return head


def read(path: str) -> Head:
    """What the file says about itself; a ModelLoadError where no target could use it."""
    header = gguf.read(path)
    if error := gguf.damage(header):
        raise error
    kind = header.architecture
    if kind not in KINDS:
        raise ModelLoadError(path, "it is not an EAGLE-3 or DFlash head", "Use --method draft for a smaller model.")
    if reason := _vocabulary_fault(header) or (_eagle3_fault if kind == "eagle3" else _dflash_fault)(header):
        raise ModelLoadError(path, reason, _OTHER_FILE)
    if kind == "eagle3":
        return Head(header, kind, _layers(header), header.number("$.target_hidden_size"), None)
    longest = block_size(header) - (0 if anchored(header) else 1)
    return Head(header, kind, _layers(header), header.number("$.embedding_length"), longest)


def misfit(head: Head, target: Header) -> str | None:
    """Why the head can't draft for this target, as a sentence without its end; None when it can."""
    arch = target.architecture
    width = target.number("$.embedding_length")
    highest, deep = max(head.layers), depth(target)
    if reason := untapped(arch):
        return f"{reason}, so no {head.kind} head can draft for it"
    if head.width != width:
        return f"it was trained on a model of width {head.width}, and {target.name} has {width}"
    if highest > deep:
        return f"it reads layer {highest}, and {target.name} has {deep} layers"
    if highest == deep and arch not in _TAPPED_BEHIND[head.kind]:
        return f"it reads what leaves the last layer, and llama.cpp can't give that for a {arch!r} model"
    own = {tensor.name for tensor in head.header.tensors}
    borrows = not {"token_embd.weight", "output.weight"} <= own
    if borrows and head.header.number("$.embedding_length") != width:
        return f"it lacks embeddings of its own, and its width differs from that of {target.name}"
    return vocabulary_misfit(head.header, target)


def untapped(architecture: str) -> str | None:
    """Why no head but its own prediction layers can draft for such a model; None when one may."""
    known = architecture in TAPPED
    return None if known else f"llama.cpp can't read the hidden states of a {architecture!r} model"


def depth(target: Header) -> int:
    """How many layers it has, those for multi-token prediction not counted."""
    return target.number("$.block_count") - target.number("$.nextn_predict_layers")


def anchored(header: Header) -> bool:
    """DSpark heads may read their first proposal from the row of the last known token."""
    return _has(header, "markov_w1.weight") and header.metadata.get("dflash.sample_from_anchor", True) is True


def block_size(header: Header) -> int:
    return header.number("dflash.block_size", 16)


def _layers(header: Header) -> tuple[int, ...]:
    found = header.metadata.get(f"{header.architecture}.target_layers", ())
    return tuple(int(layer) for layer in found) if isinstance(found, tuple) else ()


def _eagle3_fault(header: Header) -> str | None:
    layers, blocks = _layers(header), header.number("$.block_count")
    k, v = header.number("$.attention.key_length"), header.number("$.attention.value_length")
    if len(layers) != 3 or min(layers) < 0:
        return f"an EAGLE-3 head reads three layers of its target, this one names {len(layers)}"
    if blocks != 1:
        return f"an EAGLE-3 head has one layer, this one claims {blocks}"
    if (k or v) and k != v:
        return f"its attention heads have keys of {k} and values of {v}, which llama.cpp does not support"
    return _reduced_fault(header)


def _dflash_fault(header: Header) -> str | None:
    layers, mask = _layers(header), header.number("tokenizer.ggml.mask_token_id", -1)
    if _has(header, "selector_hidden.weight") or header.number("$.selector_top_k"):
        return "it is a DFlash2 head, which localspec does not support yet"
    if header.number("$.hyper_connection_count"):
        return "it is a DSpark head for DeepSeek-V4, which localspec does not support yet"
    if not layers or min(layers) < 0:
        return "it does not say which layers of its target it reads"
    if header.vocabulary is None or not 0 <= mask < header.vocabulary.size:
        return "it has no mask token, which stands for the words still to be drafted"
    if not 2 <= block_size(header) <= 64:
        return f"its blocks have {block_size(header)} tokens; 2 to 64 are supported"
    return _reduced_fault(header)


def _reduced_fault(header: Header) -> str | None:
    """`d2t` maps the rows of a reduced vocabulary to the target's ids. llama.cpp trusts it."""
    tensor = next((tensor for tensor in header.tensors if tensor.name == "d2t"), None)
    if tensor is None:
        return None
    if not _has(header, "output.weight"):
        return "its reduced vocabulary has no output of its own"
    assert header.vocabulary is not None
    if tensor.type != _I64 or len(tensor.shape) != 1 or not _within(header, tensor, header.vocabulary.size):
        return "the map of its reduced vocabulary is damaged"
    return None


def _within(header: Header, tensor: Tensor, size: int) -> bool:
    ids = np.fromfile(header.path, "<i8", tensor.shape[0], offset=header.data_offset + tensor.offset)
    return ids.size == tensor.shape[0] > 0 and bool(((ids >= 0) & (ids < size)).all())


def _vocabulary_fault(header: Header) -> str | None:
    vocabulary = header.vocabulary
    if vocabulary is None or not vocabulary.size or vocabulary.model in ("", "none", "no_vocab"):
        return "it carries no tokenizer"
    if vocabulary.repeated:
        return f"its vocabulary holds {vocabulary.repeated[0]!r} twice"
    return None


def vocabulary_misfit(head: Header, target: Header) -> str | None:
    """Why the ids of the two don't stand for the same pieces; None when they do."""
    ours, theirs = head.vocabulary, target.vocabulary
    if ours is None or theirs is None:
        return "one of the two has no vocabulary"
    if ours.size != theirs.size:
        return f"its vocabulary has {ours.size:,} pieces, that of {target.name} {theirs.size:,}"
    if ours.fingerprint == theirs.fingerprint:
        return None
    same = sum(a == b for a, b in zip(gguf.pieces(head.path), gguf.pieces(target.path), strict=True)) / ours.size
    if same < _SAME:
        return f"only {same:.0%} of its vocabulary are pieces of {Path(target.path).name} with the same ids"
    return None


def _has(header: Header, tensor: str) -> bool:
    return any(t.name == tensor for t in header.tensors)
