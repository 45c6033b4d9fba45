"""GGUF files that are here already: those of LM Studio, Ollama, the Hub's cache, and folders that the user names.

Names of files only: nothing is opened but Ollama's small manifests. Files that belong to a model without being one
(projectors, later parts) are left out; heads are a list of their own.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from localspec.catalog import hub_cache, parts

DEPTH = 6  # folders below the one that is searched
ENTRIES = 20_000  # in one search; a folder with more is no folder of models
_LM_STUDIO = ("~/.lmstudio/models", "~/.cache/lm-studio/models")
_OLLAMA = ("~/.ollama/models", "/usr/share/ollama/.ollama/models", "/var/lib/ollama/.ollama/models")
_COMPANION = re.compile(r"(^|/)(mmproj|imatrix|mtp-|mtp/|eagle3-|dflash)|-dflash", re.IGNORECASE)
_HEAD = re.compile(r"(^|/)(mtp-|mtp/|eagle3-|dflash)|-dflash", re.IGNORECASE)
_LATER_PART = re.compile(r"-(?!00001)\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
_MODEL_LAYER = "application/vnd.ollama.image.model"


@dataclass(frozen=True, slots=True)
class LocalFile:
    """`name` is what its owner calls it, `size` that of all its parts."""

    path: Path
    name: str
    source: str
    size: int


def local_files(folders: Iterable[Path] = (), *, heads: bool = False) -> list[LocalFile]:
    """Each file once, however many names it has; the user's own folders first. `heads`: those, as their names say."""
    found: dict[str, LocalFile] = {}
    for path, name, source in _named(folders, is_head if heads else is_model):
        try:
            size = sum(part.stat().st_size for part in parts(path))
        except OSError:  # a part is missing, or a link leads nowhere
            continue
        found.setdefault(os.path.realpath(path), LocalFile(path, name, source, size))
    return list(found.values())


def is_companion(name: str) -> bool:
    """Whether a file of this name belongs to a model without being one; `/` between folders."""
    return bool(_COMPANION.search(name) or _LATER_PART.search(name))


def is_model(name: str) -> bool:
    return name.lower().endswith(".gguf") and not is_companion(name)


def is_head(name: str) -> bool:
    """Whether a file of this name drafts for a model, and is none itself."""
    return name.lower().endswith(".gguf") and bool(_HEAD.search(name)) and not _LATER_PART.search(name)


def _named(folders: Iterable[Path], wanted: Callable[[str], bool]) -> Iterator[tuple[Path, str, str]]:
    for folder in folders:
        yield from ((path, path.stem, str(folder)) for path in _files(Path(os.path.expanduser(folder)), wanted))
    for text in _LM_STUDIO:
        yield from ((path, path.stem, "LM Studio") for path in _files(Path(os.path.expanduser(text)), wanted))
    own = os.environ.get("OLLAMA_MODELS")
    for text in (own,) if own else _OLLAMA:
        blobs = _ollama(Path(os.path.expanduser(text))) if wanted is is_model else ()
        yield from ((path, name, "Ollama") for path, name in blobs)
    for snapshots in sorted(hub_cache().glob("models--*/snapshots")):
        yield from ((path, path.stem, "Hub cache") for path in _files(snapshots, wanted))


def _files(folder: Path, wanted: Callable[[str], bool]) -> Iterator[Path]:
    return (path for path in _walk(folder) if wanted(path.relative_to(folder).as_posix()))


def _walk(folder: Path) -> Iterator[Path]:
    """Files below a folder, each folder once: links may lead in circles."""
    waiting, seen, left = [(folder, 0)], set[str](), ENTRIES
    while waiting:
        place, depth = waiting.pop()
        real = os.path.realpath(place)
        if real in seen or depth > DEPTH:
            continue
        seen.add(real)
        for entry in _entries(place):
            left -= 1
            if left < 0:
                return
            if os.path.isdir(entry.path):  # unlike the entry's own, it never raises
                waiting.append((Path(entry.path), depth + 1))
            else:
                yield Path(entry.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:  # not there, or not ours to read
        return []


def _ollama(folder: Path) -> Iterator[tuple[Path, str]]:
    """A manifest names the layers of a model; the one with the weights is a file among the blobs."""
    manifests = folder / "manifests"
    for manifest in _walk(manifests):
        digest = _weights(manifest)
        blob = folder / "blobs" / digest.replace(":", "-")
        if digest and blob.is_file():
            *_, owner, model, tag = ("", *manifest.relative_to(manifests).parts)
            yield blob, f"{model}:{tag}" if owner == "library" else f"{owner}/{model}:{tag}"


def _weights(manifest: Path) -> str:
    try:
        layers = json.loads(manifest.read_text("utf-8"))["layers"]
        return next((str(each["digest"]) for each in layers if each["mediaType"] == _MODEL_LAYER), "")
    except (OSError, ValueError, KeyError, TypeError):
        return ""
