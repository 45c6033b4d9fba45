"""`localspec inspect`: what a file is, whether it is whole, and whether another can draft for it.

Everything comes from headers; no weights are loaded. Standard output is data.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from math import prod
from shlex import quote
from textwrap import wrap
from typing import Any

from localspec import gguf
from localspec.chat.message import Message
from localspec.chat.template import ChatTemplate
from localspec.chat.text import one_line
from localspec.errors import ModelLoadError
from localspec.gguf import Header
from localspec.llama import abilities, known
from localspec.llama.abilities import HeadFacts, Rewinding
from localspec.pairing import Pairing, counted, pair

SCHEMA = "localspec.inspect/1"


@dataclass(frozen=True, slots=True)
class Description:
    """What the header says. `problem` is what is broken, `purpose` what the file is when it is no language model,
    `template` why it can't be used as it is: clauses, None where there is nothing to say. `rewinding` and `drafters`
    are those of a language model: what its cache takes back, and for each method why it can't draft, None where it
    can, given its file; `head` is that of a draft head."""

    path: str
    name: str
    architecture: str
    bytes: int
    files: int
    layers: int
    width: int
    parameters: int
    quantisation: dict[str, float]  # tensor type -> its share of the bytes, the largest first
    context: int
    vocabulary: int
    tokenizer: str
    has_template: bool
    template: str | None
    mtp_layers: int
    mtp_layers_claimed: int
    rewinding: Rewinding | None
    drafters: dict[str, str | None]
    head: HeadFacts | None
    purpose: str | None
    problem: str | None
    hint: str


def inspect(path: str, draft: str | None, *, as_json: bool) -> int:
    """Print what is known; returns the exit code: 1 when the file is damaged or the pair does not work."""
    try:
        header = gguf.read(path)
    except ModelLoadError as error:
        if not as_json:
            raise
        _print_json({"path": path, "problem": error.reason, "hint": error.hint})
        return error.exit_code
    found = describe(header)
    pairing = _pairing(header, found, draft) if draft else None
    if as_json:
        _print_json(asdict(found) | {"pairing": asdict(pairing) | {"draft": draft} if pairing else None})
    else:
        rows = [*_rows(found), *(_pair_rows(path, draft or "", pairing) if pairing else ())]
        print("\n".join(f"{one_line(label, 14):<14}{one_line(text, 500)}".rstrip() for label, text in rows))
    return 1 if found.problem or (pairing and pairing.method is None) else 0


def describe(header: Header) -> Description:
    damage, misfit = gguf.damage(header), gguf.misfit(header)
    parts = _parts(header)
    tensors = tuple(tensor for part in parts for tensor in part.tensors)
    claimed, mtp = gguf.mtp_layers(replace(header, tensors=tensors))
    problem = damage.reason if damage else None if misfit else known.refusal(header.architecture)
    faults = [error for error in (damage, misfit) if error]
    vocabulary, writes = header.vocabulary, not (problem or misfit)
    return Description(
        path=header.path,
        name=header.name,
        architecture=header.architecture,
        bytes=sum(part.size for part in parts),
        files=header.split[1],
        layers=header.number("$.block_count"),
        width=header.number("$.embedding_length"),
        parameters=sum(prod(tensor.shape) for tensor in tensors),
        quantisation=_quantisation(tensors),
        context=header.number("$.context_length"),
        vocabulary=vocabulary.size if vocabulary else 0,
        tokenizer=" ".join(filter(None, (header.text("tokenizer.ggml.model"), header.text("tokenizer.ggml.pre")))),
        has_template=header.chat_template is not None,
        template=_template(header) if writes else None,
        mtp_layers=mtp,
        mtp_layers_claimed=claimed,
        rewinding=abilities.rewinding(header) if writes else None,
        drafters=abilities.drafters(header) if writes else {},
        head=abilities.head_facts(header) if gguf.is_head(header) and not damage else None,
        purpose=misfit.reason if misfit else None,
        problem=problem,
        hint=faults[0].hint if faults else "A newer localspec may bring a newer llama.cpp." if problem else "",
    )


def _parts(header: Header) -> list[Header]:
    """Those parts of the model that can be read."""
    try:
        paths = gguf.shards(header)
    except ModelLoadError:
        return [header]
    parts = [header]
    for path in paths[1:]:
        try:
            parts.append(gguf.read(path))
        except ModelLoadError:
            continue
    return parts


def _quantisation(tensors: tuple[gguf.Tensor, ...]) -> dict[str, float]:
    sizes = Counter[str]()
    for tensor in tensors:
        sizes[tensor.type_name] += tensor.nbytes
    total = max(1, sizes.total())
    return {name: round(size / total, 4) for name, size in sizes.most_common()}


def _template(header: Header) -> str | None:
    """What the chat will say about the template, when it meets a system message and a first question."""
    pieces = gguf.pieces(header.path)

    def text(key: str) -> str:
        token = header.number(f"tokenizer.ggml.{key}_token_id", -1)
        return pieces[token].decode(errors="replace") if 0 <= token < len(pieces) else ""

    template = ChatTemplate(header.chat_template, bos=text("bos"), eos=text("eos"))
    rendered = template.render([Message("system", "Be brief."), Message("user", "Hello!")])
    return " ".join(rendered.notices) or None


def _pairing(header: Header, found: Description, draft: str) -> Pairing:
    if fault := found.problem or found.purpose:
        return Pairing(None, f"the target can't be used: {fault}", found.hint)
    return counted(pair(header, draft), header.path, draft)


def _rows(found: Description) -> Iterator[tuple[str, str]]:
    """What is not known has no row."""
    yield "Name", found.name
    yield "File", found.path
    yield "Size", f"{_size(found.bytes)}" + (f" in {found.files} files" if found.files > 1 else "")
    yield "Kind", found.purpose or "a language model"
    if found.architecture:
        yield "Architecture", f"{found.architecture}, {_count(found.layers, 'layer')} of width {found.width:,}"
    if found.parameters:
        yield "Parameters", f"{found.parameters:,}"
        yield "Quantisation", ", ".join(f"{name} {share:.1%}" for name, share in found.quantisation.items())
    if found.context:
        yield "Context", f"{found.context:,} tokens"
    if found.vocabulary:
        yield "Vocabulary", f"{found.vocabulary:,} pieces ({found.tokenizer})"
    if found.rewinding:
        yield "Chat template", found.template or "renders"
        yield from _wrapped("Rollback", f"{found.rewinding.rollback}: {found.rewinding.cost}")
        yield from _drafters(found)
    if found.head:
        yield from _head_rows(found, found.head)
    yield "Complete", f"no: {found.problem}" if found.problem else "yes"
    if found.problem:
        yield "", found.hint


def _drafters(found: Description) -> Iterator[tuple[str, str]]:
    works = [name for name, reason in found.drafters.items() if reason is None]
    alone = [name for name in works if name in abilities.ALONE]
    if "mtp" in works:
        alone.append(f"mtp ({_count(found.mtp_layers, 'layer')} in the file)")
    if works:
        yield "Drafters", ", ".join(alone)
        beside = (name for name in works if name not in (*abilities.ALONE, "mtp"))
        yield "", f"with a file (--draft FILE): {', '.join(beside)}"
    for reason in dict.fromkeys(filter(None, found.drafters.values())):
        names = (name for name, why in found.drafters.items() if why == reason)
        yield from _wrapped("Can't draft", f"{', '.join(names)}: {reason}")
    if found.mtp_layers_claimed > found.mtp_layers:
        claimed = _count(found.mtp_layers_claimed, "MTP layer")
        yield "", f"the header claims {claimed}, but the file holds {found.mtp_layers}"


def _head_rows(found: Description, head: HeadFacts) -> Iterator[tuple[str, str]]:
    kind = {"mtp": "MTP", "eagle3": "EAGLE-3", "dflash": "DFlash"}[head.kind]
    reads = f"what enters layers {', '.join(map(str, head.reads))}" if head.reads else "what leaves the last layer"
    yield "Head", f"{kind}, {_count(head.layers, 'layer')} of its own; reads {reads} of its target"
    part = "all" if head.proposes == head.vocabulary else f"{head.proposes:,}"
    most = f", at most {_count(head.longest, 'token')} at once" if head.longest else ""
    yield "Proposes", f"{part} of {head.vocabulary:,} pieces{most}"
    if head.fault:
        yield "Fits", f"no model: {head.fault}"
        return
    deep = f" and at least {_count(max(head.reads), 'layer')}" if head.reads else ""
    borrowed = "; it borrows from them what it lacks" if head.borrows else ""
    several = "s" if len(head.architectures) > 1 else ""
    yield from _wrapped(
        "Fits",
        f"models of width {head.width:,}{deep}, with the same vocabulary, of the architecture{several} "
        f"{', '.join(head.architectures)}{borrowed}",
    )
    yield "What to do", f"localspec chat --target MODEL --draft {quote(found.path)}"


def _wrapped(label: str, text: str) -> Iterator[tuple[str, str]]:
    for line in wrap(text, 66, break_long_words=False, break_on_hyphens=False):
        yield label, line
        label = ""


def _pair_rows(target: str, draft: str, pairing: Pairing) -> Iterator[tuple[str, str]]:
    verdict = {None: "no", "translated": "only translated"}.get(pairing.method, "yes")
    yield "", ""
    yield "Draft", draft
    yield "Pairs", f"{verdict}: {pairing.reason}"
    for difference in pairing.differences:
        yield "", f"id {difference.id} is {difference.target} in the target, {difference.draft} in the draft"
    if pairing.shared is not None:
        yield "Shared", f"{pairing.shared:.1%} of the draft's pieces"
    for remark in pairing.remarks:
        yield "Note", remark
    if pairing.method is None:
        yield "What to do", pairing.hint
        return
    method = " --method translated" if pairing.method == "translated" else ""
    yield "What to do", f"localspec chat --target {quote(target)} --draft {quote(draft)}{method}"


def _count(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count:,} {what}s"


def _size(size: int) -> str:
    return f"{size / 1e9:.2f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"


def _print_json(facts: dict[str, Any]) -> None:
    print(json.dumps({"schema": SCHEMA} | facts, ensure_ascii=False, indent=2))
