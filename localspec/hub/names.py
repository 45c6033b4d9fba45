"""Names of files in a repository: which one a catalogue entry means, its parts, and which names are refused."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from localspec.catalog import FileRef
from localspec.hub.failures import HubError

_PART = re.compile(r"(.*)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE | re.DOTALL)
_SHOWN = 8


def wanted(ref: FileRef, names: Iterable[str]) -> tuple[str, ...]:
    """The file that `ref` means among `names`, with all its parts in order."""
    models = sorted(name for name in names if name.lower().endswith(".gguf"))
    found = _matches(ref, [name for name in models if not _is_later_part(name)])
    if len(found) != 1:
        raise _unclear(ref, found, models)
    return _parts(found[0], models, str(ref.repo))


def means(ref: FileRef, name: str) -> bool:
    """Whether `name` is the file that `ref` asks for, or one of its parts."""
    match = _PART.fullmatch(name)
    first = (f"{match[1]}-00001-of-{match[3]}.gguf" if match else name).lower()
    if ref.file is None:
        return fnmatchcase(first, (ref.pattern or "").lower())
    return first == ref.file.lower()


def is_safe(name: str) -> bool:
    """Whether a name stays inside the folder it is put into, on every system."""
    parts = name.split("/")
    return name.isprintable() and not re.search(r'[\\:*?"<>|]', name) and not {"", ".", ".."} & set(parts)


def _matches(ref: FileRef, names: list[str]) -> list[str]:
    return [ref.file] if ref.file in names else [name for name in names if means(ref, name)]


def _is_later_part(name: str) -> bool:
    match = _PART.fullmatch(name)
    return match is not None and int(match[2]) != 1


def _parts(name: str, names: list[str], repo: str) -> tuple[str, ...]:
    match = _PART.fullmatch(name)
    if match is None:
        return (name,)
    by_number = {
        int(part[2]): part[0]
        for part in map(_PART.fullmatch, names)
        if part and part[1] == match[1] and part[3] == match[3]
    }
    missing = [number for number in range(1, int(match[3]) + 1) if number not in by_number]
    if missing:
        message = f"{repo} holds only {len(by_number)} of the {int(match[3])} parts of {name}."
        raise HubError(message, "Its upload may not be finished; try later, or take another file.")
    return tuple(by_number[number] for number in sorted(by_number))


def _unclear(ref: FileRef, found: list[str], models: list[str]) -> HubError:
    asked = ref.file or ref.pattern or ""
    if len(found) > 1:
        shown = ", ".join(found[:_SHOWN])
        return HubError(f"{asked} fits {len(found)} files of {ref.repo}.", f"Name one of them: {shown}")
    if not models:
        return HubError(f"{ref.repo} holds no GGUF file.", "Look for a repository whose name ends in -GGUF.")
    firsts = [name for name in models if not _is_later_part(name)]
    near = get_close_matches(asked.lower(), [name.lower() for name in firsts], _SHOWN, cutoff=0.3)
    shown = ", ".join([name for name in firsts if name.lower() in near] or firsts[:_SHOWN])
    return HubError(f"{ref.repo} has no file {asked}.", f"It may have been renamed. There are: {shown}")
