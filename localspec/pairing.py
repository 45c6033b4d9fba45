"""Can this file draft for that one? Decided from the two headers, by llama.cpp's own rules, before anything is loaded.

A draft that shares the target's vocabulary drafts for it as it is; one with another tokeniser may draft translated;
a head fits the model that it was trained for. Knows files, not models in memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.gguf import Header

PADDING = 128  # vocabularies may differ in size by so many ids that no text uses
FIRST = 5  # the ids before it are begin, end, unknown and the like: their names may differ
SHOWN = 3
SAME_FAMILY = "Choose a smaller language model of the same family."
FEW = 0.1  # with fewer shared pieces than this, translating is not worth a try

# tokenizer.ggml.model -> the kind of tokeniser, as llama.cpp sorts them
_KINDS = {
    "llama": "SPM",
    "gpt2": "BPE",
    "gemma4": "BPE",
    "bert": "WPM",
    "t5": "UGM",
    "rwkv": "RWKV",
    "plamo2": "PLaMo-2",
}
# What llama.cpp assumes where a file does not say: (begin id, whether it is put before a text), and the same for end.
_BEGIN = {"SPM": (1, True), "BPE": (11, False), "WPM": (101, True), "PLaMo-2": (1, False)}
_END = {"SPM": (2, False), "BPE": (11, False), "UGM": (1, True), "PLaMo-2": (2, False)}
# Kinds of BPE that put a begin token before a text.
_BEGINNING = {"llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"}
_BEGINNING |= {"jina-v5-nano", "tekken", "chameleon"}


@dataclass(frozen=True, slots=True)
class Facts:
    """What of a vocabulary decides. `begin` and `end` are the ids that are put around every text, None for none."""

    kind: str
    pieces: Sequence[bytes]
    begin: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """An id that stands for two pieces."""

    id: int
    target: str
    draft: str


@dataclass(frozen=True, slots=True)
class Pairing:
    """`method` is how the file can draft for the target, None: not at all. `reason` is a clause without an end.

    With the same ids for the same pieces, `same_ids`, a user who knows better may insist on a pair that llama.cpp
    would refuse. `shared` is the fraction of the draft's pieces that the target has too, where it was counted.
    """

    method: str | None
    reason: str
    hint: str = ""
    differences: tuple[Difference, ...] = ()
    same_ids: bool = False
    shared: float | None = None
    remarks: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether it drafts as it is, untranslated."""
        return self.method not in (None, "translated")


def pair(target: Header, draft: str) -> Pairing:
    """The verdict on a sound target and the file that should draft for it, whatever that is."""
    try:
        header = gguf.read(draft)
    except ModelLoadError as error:
        return Pairing(None, error.reason, error.hint)
    if gguf.is_head(header):
        return _head(target, header)
    if broken := gguf.damage(header):
        return Pairing(None, broken.reason, broken.hint)
    if other := gguf.misfit(header):
        return Pairing(None, other.reason, SAME_FAMILY)
    theirs = facts(target)
    ours = facts(header, theirs.pieces if _fingerprint(header) == _fingerprint(target) else None)
    return replace(compare(theirs, ours), remarks=_remarks(target, header))


def compare(target: Facts, draft: Facts) -> Pairing:
    """The rules of llama.cpp for two vocabularies."""
    count = min(len(target.pieces), len(draft.pieces))
    differing = _differing(target.pieces, draft.pieces, count)
    apart = abs(len(target.pieces) - len(draft.pieces))
    reason = _refusal(target, draft, apart, differing)
    if reason is None:
        same = f"the same vocabulary of {count:,} pieces" if apart == 0 else f"the same {count:,} pieces"
        padding = f"; {apart} ids that only one of them has are never proposed" if apart else ""
        return Pairing("draft", same + padding, "Chat with both: --draft FILE", same_ids=True)
    shown = tuple(Difference(i, _text(target.pieces[i]), _text(draft.pieces[i])) for i in islice(differing, SHOWN))
    return Pairing(
        "translated",
        reason,
        "It can draft translated: --draft FILE --method translated",
        shown,
        same_ids=not differing and apart <= PADDING,
    )


def facts(header: Header, pieces: Sequence[bytes] | None = None) -> Facts:
    """`pieces` saves reading them where they are known already."""
    model, pre = header.text("tokenizer.ggml.model"), header.text("tokenizer.ggml.pre")
    kind = _KINDS.get(model, model)
    begin, begins = _BEGIN.get(kind, (-1, False))
    end, ends = _END.get(kind, (-1, False))
    begins = _flag(header, "add_bos_token", begins or pre in _BEGINNING) or "gemma4" in (model, pre)
    ends = _flag(header, "add_eos_token", ends)
    return Facts(
        kind,
        gguf.pieces(header.path) if pieces is None else pieces,
        header.number("tokenizer.ggml.bos_token_id", begin) if begins else None,
        header.number("tokenizer.ggml.eos_token_id", end) if ends else None,
    )


def counted(pairing: Pairing, target: str, draft: str) -> Pairing:
    """The verdict with the fraction of shared pieces, where translating comes into question: below `FEW` it is not
    worth a try. Loads both vocabularies, no weights."""
    from localspec.llama.load import load_vocab
    from localspec.spec.translation import Translation

    if pairing.method != "translated":
        return pairing
    try:
        with closing(load_vocab(target)) as theirs, closing(load_vocab(draft)) as ours:
            shared = Translation(theirs, ours).shared
    except ModelLoadError as error:
        return replace(pairing, method=None, reason=error.reason, hint=error.hint)
    if shared < FEW:
        return replace(pairing, method=None, shared=shared, hint=SAME_FAMILY)
    return replace(pairing, shared=shared)


def _refusal(target: Facts, draft: Facts, apart: int, differing: Sequence[int]) -> str | None:
    if target.kind != draft.kind:
        return f"its tokenizer is of the kind {draft.kind}, the target's is {target.kind}"
    for word, theirs, ours in (("begins", target.begin, draft.begin), ("ends", target.end, draft.end)):
        if theirs != ours:
            return f"the target {word} a text with {_named(theirs, target)}, the draft with {_named(ours, draft)}"
    if apart > PADDING:
        return f"its vocabulary has {len(draft.pieces):,} pieces, the target's {len(target.pieces):,}"
    if differing:
        count = min(len(target.pieces), len(draft.pieces))
        return f"{len(differing):,} of {count:,} ids stand for other pieces"
    return None


def _differing(target: Sequence[bytes], draft: Sequence[bytes], count: int) -> list[int]:
    if target[FIRST:count] == draft[FIRST:count]:
        return []
    return [i for i in range(FIRST, count) if target[i] != draft[i]]


def _head(target: Header, header: Header) -> Pairing:
    from localspec.llama import heads, prediction

    try:
        fit = heads.fit if header.architecture in heads.KINDS else prediction.fit
        head = fit(header.path, target)
    except ModelLoadError as error:
        return Pairing(None, error.reason, error.hint)
    return Pairing(
        head.kind, "it is a head for a model of this shape", "Chat with both: --draft FILE", same_ids=True
    )


def _remarks(target: Header, draft: Header) -> tuple[str, ...]:
    """What works, but will disappoint."""
    remarks = []
    theirs, ours = _size(target), _size(draft)
    if ours >= theirs:
        remarks.append(
            f"The draft is no smaller than the target ({ours / 1e9:.2f} GB and {theirs / 1e9:.2f} GB), so drafting "
            "costs as much as it can save."
        )
    theirs, ours = target.number("$.context_length"), draft.number("$.context_length")
    if 0 < ours < theirs:
        remarks.append(
            f"The draft was trained on texts of {ours:,} tokens, the target on {theirs:,}: it can draft no further."
        )
    return tuple(remarks)


def _size(header: Header) -> int:
    return sum(os.path.getsize(part) for part in gguf.shards(header))


def _fingerprint(header: Header) -> str | None:
    return header.vocabulary.fingerprint if header.vocabulary else None


def _flag(header: Header, key: str, default: bool) -> bool:
    value = header.metadata.get(f"tokenizer.ggml.{key}", default)
    return value if isinstance(value, bool) else default


def _named(token: int | None, vocabulary: Facts) -> str:
    if token is None:
        return "no token"
    known = 0 <= token < len(vocabulary.pieces)
    return f"token {token} ({_text(vocabulary.pieces[token])})" if known else f"token {token}"


def _text(piece: bytes) -> str:
    return repr(piece.decode(errors="replace"))
