"""GGUF files: what a file is, whether it is whole, and whether llama.cpp will survive it.

llama.cpp reports most bad files with one vague line, and some of them end the process; here each gets its own
sentence. Knows nothing of llama_cpp, and is cheap to import.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from localspec.errors import ModelLoadError
from localspec.gguf.header import Header, Tensor, Vocabulary
from localspec.gguf.reader import AGAIN, Bad, outline, pieces, read

__all__ = [
    "HEADS",
    "Header",
    "Tensor",
    "Vocabulary",
    "check",
    "damage",
    "fingerprint",
    "is_head",
    "misfit",
    "mtp_layers",
    "outline",
    "pieces",
    "read",
    "shards",
]

MAX_LAYERS, MAX_EXPERTS = 512, 1024  # llama.cpp's own limits
HEADS = frozenset({"eagle3", "dflash", "gemma4-assistant"})  # drafters that run on a target's hidden states


def check(path: str) -> Header:
    """The header of a language model that llama.cpp can be trusted with; else a ModelLoadError that says why."""
    header = read(path)
    if error := damage(header) or misfit(header):
        raise error
    return header


def damage(header: Header) -> ModelLoadError | None:
    """What is broken about the file. A sound file need not be a language model: see `misfit`."""
    try:
        for part in shards(header):
            _complete(header if part == header.path else read(part))
        if not header.architecture:
            raise Bad("it does not say which architecture it is", "Look for another GGUF version of this model.")
        if misfit(header) is None:
            _has_vocabulary(header)
            _is_consistent(header)
    except Bad as bad:
        return ModelLoadError(header.path, bad.reason, bad.hint)
    except ModelLoadError as error:
        return error
    return None


def misfit(header: Header) -> ModelLoadError | None:
    """Why the file, whole or not, can never write text by itself; None for a language model."""
    try:
        _is_model(header)
    except Bad as bad:
        return ModelLoadError(header.path, bad.reason, bad.hint)
    return None


def is_head(header: Header) -> bool:
    """Whether it drafts on the hidden states of another model, and is of no use without it."""
    return header.architecture in HEADS or _is_mtp_head(header)


def mtp_layers(header: Header) -> tuple[int, int]:
    """How many layers for multi-token prediction the header claims, and how many the file really has."""
    return header.number("$.nextn_predict_layers"), len(_mtp_blocks(header))


def shards(header: Header) -> tuple[str, ...]:
    """Every file of the model, in order. Raises ModelLoadError when one is missing."""
    no, count = header.split
    if count <= 1:
        return (header.path,)
    match = re.fullmatch(rf"(.*)-{no + 1:05}-of-{count:05}\.gguf", header.path, re.DOTALL)
    if match is None:
        hint = f"It must end in -{no + 1:05}-of-{count:05}.gguf; give the parts back the names they came with."
        raise ModelLoadError(header.path, f"it is part {no + 1} of {count}, but not named like one", hint)
    parts = tuple(f"{match[1]}-{i:05}-of-{count:05}.gguf" for i in range(1, count + 1))
    missing = [Path(part).name for part in parts if not os.path.exists(part)]
    if missing:
        reason = f"{len(missing)} of its {count} parts missing: {', '.join(missing[:3])}"
        raise ModelLoadError(header.path, reason, f"Put all parts into {Path(header.path).parent}.")
    if no:
        raise ModelLoadError(header.path, f"it is part {no + 1} of {count}", f"Name the first part: {parts[0]}")
    return parts


def fingerprint(model: str | Header) -> str:
    """sha256 over the size, the header and 64 blocks of 64 KiB spread evenly over the data, for each part in order.

    Two files that differ only between the blocks look the same: it tells models apart, it does not verify a
    download.
    """
    header = read(model) if isinstance(model, str) else model
    digest = sha256()
    for part in shards(header):
        _sample(digest.update, header if part == header.path else read(part))
    return digest.hexdigest()


def _complete(header: Header) -> None:
    missing = header.expected_size - header.size
    if missing > 0:
        of = "" if header.split[1] <= 1 else f" ({Path(header.path).name})"
        raise Bad(f"the file{of} is incomplete: its last {missing:,} bytes are missing", AGAIN)


def _is_model(header: Header) -> None:
    kind, arch = header.text("general.type"), header.architecture
    if kind == "adapter":
        raise Bad("it is a LoRA adapter, not a model", "Name the model that it was made for.")
    if kind == "mmproj" or arch == "clip":
        raise Bad("it is a vision or audio projector, not a model", "Name the model that it belongs to.")
    if is_head(header):
        kind = arch if arch in HEADS else "MTP"
        raise Bad(f"it is a draft head ({kind}), not a chat model", "Name the model that it belongs to.")
    if not header.tensors and header.split[1] <= 1:
        raise Bad("it holds no weights, only a vocabulary", "Choose the file with the model itself.")
    if header.metadata.get(f"{arch}.attention.causal") is False:
        raise Bad("it is an embedding model; it cannot write text", "Choose a chat model.")


def _is_mtp_head(header: Header) -> bool:
    """Prediction layers that came without the model around them."""
    blocks = {tensor.name.split(".")[1] for tensor in header.tensors if tensor.name.startswith("blk.")}
    return header.split[1] <= 1 and bool(blocks) and blocks == _mtp_blocks(header)


def _mtp_blocks(header: Header) -> set[str]:
    return {tensor.name.split(".")[1] for tensor in header.tensors if ".nextn." in tensor.name}


def _has_vocabulary(header: Header) -> None:
    other = "Look for another GGUF version of this model."
    if header.text("tokenizer.ggml.model") in ("", "none", "no_vocab") or header.vocabulary is None:
        raise Bad("it carries no tokenizer", other)
    if not header.vocabulary.size:
        raise Bad("its vocabulary is empty", other)
    if repeated := header.vocabulary.repeated:
        raise Bad(f"its vocabulary holds {repeated[0]!r} twice ({len(repeated)} such in all)", other)
    if lacking := header.vocabulary.lacking:
        raise Bad(f"its vocabulary has no piece for {lacking} of the 256 bytes", other)


def _is_consistent(header: Header) -> None:
    """What llama.cpp asserts about the numbers; an assertion would end the process."""
    layers, experts = header.number("$.block_count"), header.number("$.expert_count")
    used, groups = header.number("$.expert_used_count"), header.number("$.expert_group_count")
    scaling = header.text(f"{header.architecture}.rope.scaling.type")
    wrong = {
        f"it claims {layers} layers": not 1 <= layers <= MAX_LAYERS,
        "it claims more prediction layers than layers": header.number("$.nextn_predict_layers") > layers,
        f"it uses {used} of {experts} experts": not used <= experts <= MAX_EXPERTS or (used == 0) != (experts == 0),
        f"it sorts {experts} experts into {groups} groups": groups > 0
        and (groups >= experts or experts % groups > 0),
        f"it scales positions by {scaling!r}": scaling not in ("", "none", "linear", "yarn", "longrope"),
    }
    for reason, is_wrong in (*wrong.items(), *_wrong_numbers(header)):
        if is_wrong:
            raise Bad(f"{reason}: its header is damaged", "Look for another GGUF version of this model.")


def _wrong_numbers(header: Header) -> Iterator[tuple[str, bool]]:
    """What no layer can compute with. With an odd or empty rotation some graphs never end."""
    for key in ("layer_norm_rms_epsilon", "layer_norm_epsilon", "group_norm_epsilon"):
        value = header.metadata.get(f"{header.architecture}.attention.{key}", 0.0)
        yield f"its {key} is {value}", not (isinstance(value, int | float) and 0 <= value < math.inf)
    rotated = header.number("$.rope.dimension_count")
    widest = max(header.number("$.embedding_length"), header.number("$.attention.key_length"))
    needed = f"{header.architecture}.rope.dimension_sections" in header.metadata
    is_wrong = rotated % 2 == 1 or rotated > widest or (needed and rotated == 0)
    yield f"it rotates {rotated} of {widest} dimensions", is_wrong


def _sample(update: Callable[[bytes], object], header: Header, blocks: int = 64, length: int = 1 << 16) -> None:
    update(header.size.to_bytes(8, "little"))
    with open(header.path, "rb") as file:
        update(file.read(header.data_offset))
        rest = max(0, header.size - header.data_offset - length)
        for i in range(blocks):
            file.seek(header.data_offset + rest * i // (blocks - 1))
            update(file.read(length))
