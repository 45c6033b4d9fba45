"""What there is to choose from: pairs, files and heads as rows, what fits, and what to suggest.

Loads no model, and knows no widget and no network.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from localspec import catalog
from localspec.catalog import Pair
from localspec.fit.plan import Capacity, size
from localspec.shelf import listing
from localspec.shelf.found import LocalFile, local_files
from localspec.shelf.listing import Fit

Kind: TypeAlias = Literal["pair", "file", "head"]

# Every token costs one pass over all weights: on a processor a larger model is too slow for a first one.
COMFORTABLE_ON_CPU = 4_000_000_000


class Mark(NamedTuple):
    """How something fits: a symbol, one or two words, and the reason as a sentence."""

    symbol: str
    words: str
    why: str


@dataclass(frozen=True, slots=True)
class Row:
    """`here` is yes, part or no. `path` is the target's file, where it is here."""

    name: str
    kind: Kind
    size: int
    fit: Fit
    here: str = "yes"
    path: str | None = None
    pair: Pair | None = None
    family: str = ""
    drafting: str = ""
    source: str = ""

    @property
    def key(self) -> str:
        return self.pair.name if self.pair else self.path or self.name

    @property
    def mark(self) -> Mark:
        if self.kind == "head":
            return Mark("–", "a head", "It drafts for the model that it was trained for, and can't be talked to.")
        if self.kind == "file" and self.fit.plan is None:
            return Mark("✗", "unusable", _sentence(self.fit.problem))
        return fitting(self.fit)

    @property
    def is_loadable(self) -> bool:
        return self.path is not None and (self.fit.plan is not None or self.kind == "pair")

    @property
    def about(self) -> str:
        """What it is, in one line."""
        if self.pair is None:
            return " · ".join(filter(None, (self.source, self.path)))
        gated = "the Hub asks for a token and its terms accepted" if self.pair.gated else ""
        return " · ".join(filter(None, (self.pair.title, self.pair.licence, gated, self.pair.note)))


@dataclass(frozen=True, slots=True)
class Shelf:
    """Everything that was found, and the machine that it has to fit."""

    pairs: tuple[Row, ...]
    files: tuple[Row, ...]
    here: Capacity
    n_ctx: int

    @property
    def memory(self) -> str:
        host = f"{size(self.here.host)} of memory free" if self.here.host else "free memory unknown"
        gpus = [f"{size(gpu.free)} on {gpu.name}" for gpu in self.here.gpus]
        return ", ".join([host, *gpus]) if gpus else f"{host}, no GPU"


@dataclass(frozen=True, slots=True)
class Suggestion:
    row: Row
    why: str


def shelf(folders: Sequence[Path] = (), n_ctx: int | None = None) -> Shelf:
    """Look through catalogue, folders and caches. Reads the beginning of every file: not for a thread that draws."""
    found = listing.listing(list(folders), n_ctx)
    pairs = tuple(_pair_row(pair, fit) for pair, fit in found.pairs)
    files = [_file_row(file, fit) for file, fit in found.files]
    heads = [_head_row(file) for file in local_files(folders, heads=True)]
    return Shelf(pairs, (*files, *heads), found.here, found.n_ctx)


def fitting(fit: Fit) -> Mark:
    plan = fit.plan
    if plan is None:
        return Mark("?", "unknown", _sentence(fit.problem))
    uncounted = "" if fit.has_cache else " Its cache is not counted: its size shows when the file is here."
    why = _sentence(plan.reason) + uncounted
    if plan.verdict == "partly":
        share = (plan.target_layers + plan.draft_layers) / (plan.target_of + plan.draft_of)
        return Mark("◐", f"{share:.0%} GPU", why)
    symbol, words = {"gpu": ("●", "on GPU"), "cpu": ("○", "CPU")}.get(plan.verdict, ("✗", "too large"))
    return Mark(symbol, words, why)


def matching(rows: Iterable[Row], text: str) -> list[Row]:
    """Those that hold every word of `text` in what is shown of them."""
    words = text.casefold().split()
    return [row for row in rows if all(word in _haystack(row) for word in words)]


def typed(text: str, here: Capacity, n_ctx: int | None = None) -> Row | None:
    """The file that `text` is the path of, if it is one."""
    from localspec.model import ModelSpec

    text = text.strip()
    if not text.lower().endswith(".gguf") or (os.sep not in text and "/" not in text):
        return None
    path = Path(os.path.expanduser(text))
    if not path.is_file():
        return None
    file = LocalFile(path.absolute(), path.stem, "as typed", path.stat().st_size)
    return _file_row(file, listing.file_fit(file, here, ModelSpec("", n_ctx=n_ctx)))


def suggestion(found: Shelf) -> Suggestion | None:
    """The largest pair that this machine runs well, of those that anybody may fetch and whose memory is known."""
    sure = [row for row in found.pairs if row.fit.plan and row.fit.has_cache]
    open_to_all = [row for row in sure if row.pair and row.pair.target.repo and not row.pair.gated]
    for verdict, most, where in (
        ("gpu", None, "fits the GPU as a whole"),
        ("cpu", COMFORTABLE_ON_CPU, "small enough for a processor"),
        ("partly", None, "fits the GPU in part"),
        ("cpu", None, "fits host memory"),
    ):
        fits = [row for row in open_to_all if _has(row, verdict) and (most is None or row.size <= most)]
        if fits:
            return Suggestion(max(fits, key=lambda row: row.size), where)
    return None


def _has(row: Row, verdict: str) -> bool:
    return row.fit.plan is not None and row.fit.plan.verdict == verdict


def _pair_row(pair: Pair, fit: Fit) -> Row:
    path = catalog.seek(pair.target)
    return Row(
        pair.name,
        "pair",
        fit.bytes,
        fit,
        listing.presence(pair),
        str(path) if path else None,
        pair,
        pair.family,
        ", ".join(pair.methods),
        "pip" if pair.target.package else "",
    )


def _file_row(file: LocalFile, fit: Fit) -> Row:
    kind: Kind = "head" if fit.problem == listing.A_HEAD else "file"
    return Row(file.name, kind, file.size, fit, path=str(file.path), source=file.source)


def _head_row(file: LocalFile) -> Row:
    return Row(file.name, "head", file.size, Fit(file.size, None), path=str(file.path), source=file.source)


def _haystack(row: Row) -> str:
    return " ".join(_texts(row)).casefold()


def _texts(row: Row) -> Iterator[str]:
    yield from (row.name, row.family, row.drafting, row.source, row.mark.words)
    if row.pair:
        yield from (row.pair.title, row.pair.licence)


def _sentence(clause: str) -> str:
    return f"{clause[:1].upper()}{clause[1:]}." if clause else ""
