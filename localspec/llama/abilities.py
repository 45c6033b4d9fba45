"""What a model allows a drafter to do, and what a head asks of a model: told from the header alone, for people.

What is said here about a cache is what memory.py finds out by trying, once the model is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass

from localspec.errors import ModelLoadError
from localspec.fit.footprint import SNAPSHOTS, STEPPING
from localspec.gguf import Header
from localspec.llama import heads, hidden, known, prediction
from localspec.llama.memory import Rollback

NO_MEMORY = "it keeps no memory of the text, so drafts can't be checked"
ALONE, BESIDE = ("lookup", "suffix"), ("draft", "translated", "cascade")  # fit every model; the latter with a file


@dataclass(frozen=True, slots=True)
class Rewinding:
    """How the cache takes rejected tokens back, and what that costs."""

    rollback: str  # memory.Rollback
    cost: str


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """A head, and the targets that it asks for. `fault` is why no target can use it."""

    kind: str
    layers: int  # its own
    reads: tuple[int, ...]  # the layers of its target whose inputs it reads; for MTP, what leaves the last one
    width: int  # of its target
    vocabulary: int
    proposes: int  # how many pieces of that
    longest: int | None  # draft
    borrows: bool  # embeddings or output of its target
    architectures: tuple[str, ...]  # of its targets
    fault: str | None


def rewinding(header: Header) -> Rewinding:
    nature = known.nature(header.architecture)
    if nature is None or not nature.remembers:
        return Rewinding(Rollback.NONE, NO_MEMORY)
    if not (nature.recurrent or nature.hybrid):
        window = header.number("$.attention.sliding_window") > 0
        whole = "; the cache of its windows is kept whole for that, which takes memory" if window else ""
        return Rewinding(Rollback.PART, "any tail can be cut, which costs nothing" + whole)
    if header.architecture in STEPPING:
        return Rewinding(
            Rollback.RS,
            f"the last {SNAPSHOTS} tokens can be taken back, for {1 + SNAPSHOTS} times the memory of its state; after "
            "longer drafts a checkpoint is restored and what was kept is read again",
        )
    return Rewinding(
        Rollback.FULL,
        "its state can't be cut: a rejected draft costs a checkpoint and reading again what was kept; auto counts that",
    )


def drafters(header: Header) -> dict[str, str | None]:
    """For each method why it can't draft for this model, without its end; None where it can, given its file."""
    methods = (*ALONE, *BESIDE, "mtp", *heads.KINDS)
    if rewinding(header).rollback == Rollback.NONE:
        return dict.fromkeys(methods, NO_MEMORY)
    off: dict[str, str | None] = dict.fromkeys(methods)
    off["mtp"] = prediction.trouble(header)
    for kind in heads.KINDS:
        off[kind] = hidden.missing(kind) or heads.untapped(header.architecture)
    return off


def head_facts(header: Header) -> HeadFacts:
    names = {tensor.name for tensor in header.tensors}
    size = header.vocabulary.size if header.vocabulary else 0
    if header.architecture not in heads.KINDS:
        layers = header.number("$.nextn_predict_layers")
        return HeadFacts(
            kind="mtp",
            layers=layers,
            reads=(),
            width=prediction.target_width(header),
            vocabulary=size,
            proposes=size,
            longest=layers if layers > 1 and not prediction.is_sharing(header) else None,
            borrows=prediction.is_sharing(header),
            architectures=(prediction.target_architecture(header),),
            fault=hidden.missing("mtp") or prediction.fault(header),
        )
    kind = header.architecture
    head, fault = _read(header)
    reduced = next((tensor.shape[0] for tensor in header.tensors if tensor.name == "d2t"), size)
    return HeadFacts(
        kind=kind,
        layers=header.number("$.block_count"),
        reads=head.layers if head else (),
        width=head.width if head else 0,
        vocabulary=size,
        proposes=reduced,
        longest=head.longest if head else None,
        borrows=not {"token_embd.weight", "output.weight"} <= names,
        architectures=tuple(sorted(heads.TAPPED)),
        fault=fault or hidden.missing(kind),
    )


def _read(header: Header) -> tuple[heads.Head | None, str | None]:
    try:
        return heads.read(header.path), None
    except ModelLoadError as error:
        return None, error.reason
