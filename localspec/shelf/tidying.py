"""`localspec scan` and `localspec rm`: what is stored where, and deleting it without harm to anybody else.

The Hub cache belongs to every program that uses the Hub, so nothing in it is deleted unseen.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from localspec import catalog, hub
from localspec.catalog import FileRef, Pair
from localspec.chat.text import one_line
from localspec.errors import UsageError
from localspec.hub import Partial, Stored, StoredFile
from localspec.shelf.progress import duration, size
from localspec.shelf.pulling import referred

SCHEMA = "localspec.scan/1"
_DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class _Doomed:
    files: tuple[StoredFile, ...]
    partials: tuple[Partial, ...]
    kept: tuple[tuple[StoredFile, str], ...]  # and whose they are

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files) + sum(part.size for part in self.partials)


def scan(*, as_json: bool) -> int:
    """Print what is stored; returns the exit code."""
    stored = hub.scan()
    if as_json:
        print(json.dumps(_document(stored), ensure_ascii=False, indent=2))
        return 0
    for file in stored.files:
        users = _users(file) or ["no pair that localspec knows"]
        print(f"{size(file.size):>9}  {_name(file)}  ({', '.join(users)})")
    for part in stored.partials:
        print(f"{size(part.size):>9}  {_name(part)}  ({_state(part)})")
    print(f"{size(stored.size):>9}  in all, in {stored.cache}")
    if any(not part.busy for part in stored.partials):
        print("Pull a pair again to go on with its partial files; localspec rm --partial deletes them all.")
    return 0


def remove(name: str | None, *, yes: bool) -> int:
    """Say what would go, ask, delete; returns the exit code. Without a name: all partial files that rest."""
    stored = hub.scan()
    doomed = _of_pair(stored, referred(name)) if name else _leftovers(stored)
    print("\n".join(_described(doomed)))
    if not (doomed.files or doomed.partials):
        return 0
    if not yes and not _agreed(f"Delete {size(doomed.size)}? [y/N] "):
        print("Nothing was deleted.")
        return 1
    print(f"{size(hub.remove(stored, doomed.files, doomed.partials))} freed.")
    return 0


def _of_pair(stored: Stored, pair: Pair) -> _Doomed:
    """A file that another pair needs, which is whole, is kept."""
    refs = [ref for ref in (pair.target, pair.draft) if ref and ref.repo]
    files = [file for file in stored.files if any(_is(ref, file) for ref in refs)]
    others = [each for each in catalog.load_pairs().values() if each.name != pair.name and _is_whole(stored, each)]
    kept = {file: names for file in files if (names := [each.name for each in others if _uses(each, file)])}
    partials = [part for part in stored.partials if any(_is(ref, part) for ref in refs)]
    doomed = (file for file in files if file not in kept)
    return _Doomed(tuple(doomed), tuple(partials), tuple((file, ", ".join(names)) for file, names in kept.items()))


def _leftovers(stored: Stored) -> _Doomed:
    """Of other programs only what has rested for a day: what they do with theirs can't be seen."""
    resting = (part for part in stored.partials if not part.busy and (part.ours or part.age_s > _DAY_S))
    return _Doomed((), tuple(resting), ())


def _is(ref: FileRef, found: StoredFile | Partial) -> bool:
    return ref.repo == found.repo and bool(found.name) and hub.means(ref, found.name)


def _uses(pair: Pair, file: StoredFile) -> bool:
    return any(ref is not None and _is(ref, file) for ref in (pair.target, pair.draft))


def _is_whole(stored: Stored, pair: Pair) -> bool:
    refs = [ref for ref in (pair.target, pair.draft) if ref and ref.repo]
    return all(any(_is(ref, file) for file in stored.files) for ref in refs)


def _users(file: StoredFile) -> list[str]:
    return [pair.name for pair in catalog.load_pairs().values() if _uses(pair, file)]


def _described(doomed: _Doomed) -> Iterator[str]:
    for file in doomed.files:
        foreign = "" if file.ours else "  (another program fetched it, and may still use it)"
        yield f"delete {size(file.size):>9}  {_name(file)}{foreign}"
    for part in doomed.partials:
        yield f"delete {size(part.size):>9}  {_name(part)}  ({_state(part)})"
    for file, names in doomed.kept:
        yield f"keep   {size(file.size):>9}  {_name(file)}  (also used by {names})"
    if not (doomed.files or doomed.partials):
        yield "There is nothing to delete."


def _agreed(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nobody is there to be asked.", "Add --yes to delete without a question.")
    print(question, end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _name(found: StoredFile | Partial) -> str:
    name = found.path.name if isinstance(found, Partial) and not found.name else found.name
    return one_line(f"{found.repo}/{name}", 120)


def _state(part: Partial) -> str:
    if part.busy:
        return "being downloaded"
    return f"partial, untouched for {duration(part.age_s)}" + ("" if part.ours else ", of another program")


def _document(stored: Stored) -> dict[str, Any]:
    files = [
        {"repo": file.repo, "name": file.name, "bytes": file.size, "path": str(file.paths[-1]), "ours": file.ours}
        | {"commits": file.commits, "pairs": _users(file)}
        for file in stored.files
    ]
    partials = [asdict(part) | {"path": str(part.path)} for part in stored.partials]
    return {
        "schema": SCHEMA,
        "cache": str(stored.cache),
        "bytes": stored.size,
        "files": files,
        "partials": partials,
    }
