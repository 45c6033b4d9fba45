"""`localspec models`: the pairs of the catalogue and the files found here, what fits this machine, and why not.

Looks at names, sizes and the first bytes of files; loads no model and nothing heavy. Standard output is data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from localspec import catalog, gguf
from localspec.catalog import FileRef, Pair
from localspec.chat.text import one_line
from localspec.errors import ModelLoadError
from localspec.fit import capacity
from localspec.fit.footprint import DEFAULT_CONTEXT, Footprint, of_figures, of_outline
from localspec.fit.plan import Capacity, Plan, plan, size
from localspec.gguf import Header
from localspec.model import ModelSpec
from localspec.shelf.found import LocalFile, local_files

SCHEMA = "localspec.models/1"
A_HEAD = "a draft head"


@dataclass(frozen=True, slots=True)
class Fit:
    """How a pair or a file fits: its bytes and the plan for it. Without a plan, `problem` says why there is none."""

    bytes: int
    plan: Plan | None
    problem: str = ""
    has_cache: bool = True  # False: the cache is not counted, because nobody says how large it is


@dataclass(frozen=True, slots=True)
class Listing:
    pairs: tuple[tuple[Pair, Fit], ...]
    files: tuple[tuple[LocalFile, Fit], ...]
    here: Capacity
    n_ctx: int


def models(folders: str | None = None, *, n_ctx: int | None, as_json: bool) -> int:
    """Print the list; `folders` are the user's own, set apart as in PATH."""
    found = listing([Path(folder) for folder in (folders or "").split(os.pathsep) if folder], n_ctx)
    if as_json:
        print(json.dumps(document(found), ensure_ascii=False, indent=2))
    else:
        print("\n".join(table(found)))
    return 0


def listing(folders: list[Path], n_ctx: int | None = None) -> Listing:
    here, spec = capacity.capacity(), ModelSpec("", n_ctx=n_ctx)
    pairs = tuple((pair, pair_fit(pair, here, spec)) for pair in catalog.load_pairs().values())
    files = tuple((file, file_fit(file, here, spec)) for file in local_files(folders))
    return Listing(pairs, files, here, n_ctx or DEFAULT_CONTEXT)


def pair_fit(pair: Pair, here: Capacity, spec: ModelSpec) -> Fit:
    total = _bytes(pair.target) + (_bytes(pair.draft) if pair.draft else 0)
    target = _footprint(pair.target)
    if target is None:
        return Fit(total, None, "nobody says how large it is")
    draft = _footprint(pair.draft) if pair.draft else None
    return Fit(total, plan(here, target, spec, draft), has_cache=target.has_cache)


def file_fit(file: LocalFile, here: Capacity, spec: ModelSpec) -> Fit:
    try:
        header = gguf.outline(str(file.path))
    except ModelLoadError as error:
        return Fit(file.size, None, error.reason)
    if problem := _misfit(header):
        return Fit(file.size, None, problem)
    target = of_outline(header, file.size)
    return Fit(file.size, plan(here, target, spec), has_cache=target.has_cache)


def presence(pair: Pair) -> str:
    """Whether the files of a pair are here: yes, part, no."""
    here = [catalog.seek(ref) is not None for ref in (pair.target, pair.draft) if ref is not None]
    return "yes" if all(here) else "part" if any(here) else "no"


def table(found: Listing) -> Iterator[str]:
    yield _row("PAIR", "SIZE", "DRAFTS WITH", "HERE", "FITS")
    for pair, fit in found.pairs:
        total = size(fit.bytes) if fit.bytes else "?"
        yield _row(one_line(pair.name, 18), total, ", ".join(pair.methods), presence(pair), _verdict(fit))
    if found.files:
        yield ""
        yield f"{'FILE FOUND HERE':<38} {'SIZE':>8}  FITS"
    for file, fit in found.files:
        name = one_line(f"{file.name} ({_tilde(file.source)})", 38)
        yield f"{name:<38} {size(file.size):>8}  {one_line(_verdict(fit), 200)}"
        yield f"    {one_line(_tilde(str(file.path)), 1000)}"
    yield ""
    yield from _notes(found)


def document(found: Listing) -> dict[str, Any]:
    """The JSON of `models --json` (docs/models.md)."""
    memory = {"host_free": found.here.host, "gpus": [gpu._asdict() for gpu in found.here.gpus]}
    return {
        "schema": SCHEMA,
        "n_ctx": found.n_ctx,
        "memory": memory | {"source": found.here.source},
        "pairs": [asdict(pair) | {"here": presence(pair)} | _figures(fit) for pair, fit in found.pairs],
        "files": [
            {"name": file.name, "path": str(file.path), "source": file.source} | _figures(fit)
            for file, fit in found.files
        ],
    }


def _figures(fit: Fit) -> dict[str, Any]:
    plan = asdict(fit.plan) if fit.plan else {}
    fits, reason = plan.pop("verdict", None), plan.pop("reason", fit.problem)
    return {"bytes": fit.bytes, "fits": fits, "reason": reason, "plan": plan, "cache_counted": fit.has_cache}


def _row(name: str, total: str, methods: str, here: str, fits: str) -> str:
    return f"{name:<18} {total:>8}  {methods:<15} {here:<5}{fits}"


def _verdict(fit: Fit) -> str:
    """In a few words; the whole reason is in the plan."""
    found = fit.plan
    if found is None:
        return f"? {fit.problem}"
    if found.verdict == "too large":
        return f"no: takes {size(found.device_bytes + found.host_bytes)}"
    if found.verdict == "partly":
        share = (found.target_layers + found.draft_layers) / (found.target_of + found.draft_of)
        return f"partly, {share:.0%} on the GPU" + "*" * (not fit.has_cache)
    return ("yes, on the GPU" if found.verdict == "gpu" else "yes, in host memory") + "*" * (not fit.has_cache)


def _notes(found: Listing) -> Iterator[str]:
    here = found.here
    if any(fit.plan and not fit.has_cache for _, fit in (*found.pairs, *found.files)):
        yield "* its cache is not counted: its size shows when the file is here"
    host = f"{size(here.host)} free" if here.host else "unknown"
    yield f"Host memory: {host}. Context: at most {found.n_ctx:,} tokens (--n-ctx)."
    gpus = ", ".join(f"{gpu.name} with {size(gpu.free)} free" for gpu in here.gpus)
    yield f"GPUs: {gpus} ({here.source})." if gpus else f"GPUs: {here.source}."
    yield "Fetch: localspec pull PAIR. Chat: localspec chat --pair PAIR, or --target FILE."


def _bytes(ref: FileRef) -> int:
    path = catalog.seek(ref)
    try:
        return sum(part.stat().st_size for part in catalog.parts(path)) if path else ref.size or 0
    except OSError:
        return ref.size or 0


def _footprint(ref: FileRef) -> Footprint | None:
    """From the file where it is here, else from the catalogue."""
    if path := catalog.seek(ref):
        try:
            return of_outline(gguf.outline(str(path)), _bytes(ref))
        except ModelLoadError:  # chat and inspect say what is wrong with it
            pass
    return of_figures(ref.size, ref.kv_bytes_per_token, ref.state_bytes) if ref.size else None


def _misfit(header: Header) -> str:
    """What a file is that can't chat, as far as an outline shows it."""
    if header.architecture in gguf.HEADS:
        return A_HEAD
    if header.architecture == "clip" or header.text("general.type") in ("adapter", "mmproj"):
        return "no model by itself"
    causal = header.metadata.get(f"{header.architecture}.attention.causal")
    return "an embedding model" if causal is False else ""


def _tilde(path: str) -> str:
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path.startswith(home + os.sep) else path
