"""What a pair needs from the Hub: one question per repository, and the answer checked against cache and disk.

Asks for names, sizes and digests only. Where the Hub can't be asked but everything is here, that will do, and the plan
says so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from localspec import catalog
from localspec.catalog import FileRef, Pair
from localspec.errors import LocalspecError
from localspec.hub import site, store
from localspec.hub.failures import HubError, Unreachable
from localspec.hub.names import wanted
from localspec.hub.types import Plan, PlannedFile

SPARE_BYTES = 1_000_000_000  # left free for everything else


def plan(pair: Pair, *, cache: Path | None = None) -> Plan:
    """Every file of the pair; raises LocalspecError where one can't be had or the disk is too small for all."""
    folder = cache or catalog.hub_cache()
    refs = [(role, ref) for role, ref in (("target", pair.target), ("draft", pair.draft)) if ref]
    hub = [(role, ref) for role, ref in refs if ref.repo]
    notes = [_elsewhere(role, ref) for role, ref in refs if not ref.repo]
    try:
        files = _asked(hub, folder)
    except Unreachable as unreachable:
        files = _stored(hub, folder)
        if not files:
            raise
        if not site.is_offline():
            notes.append(f"The Hub could not be asked whether there is anything newer: {unreachable.message}")
    made = Plan(files, folder, tuple(notes))
    _check_disk(made)
    return made


def free_bytes(folder: Path) -> int:
    """Of the disk that `folder` is on, or will be on."""
    there = next(path for path in (folder, *folder.absolute().parents) if os.path.isdir(path))
    return shutil.disk_usage(there).free


def _asked(refs: list[tuple[str, FileRef]], cache: Path) -> tuple[PlannedFile, ...]:
    listings = {key: site.listing(*key) for key in dict.fromkeys(_key(ref) for _, ref in refs)}
    files = []
    for role, ref in refs:
        repo, revision = _key(ref)
        listing = listings[repo, revision]
        for name in wanted(ref, listing.files):
            entry = site.checked(listing.files[name], repo)
            files.append(_planned(role, repo, revision, listing.commit, entry, cache))
    return tuple(files)


def _key(ref: FileRef) -> tuple[str, str]:
    return ref.repo or "", ref.revision or "main"


def _planned(role: str, repo: str, revision: str, commit: str, entry: site.Entry, cache: Path) -> PlannedFile:
    bare = PlannedFile(role, repo, entry.name, revision, commit, entry.size, entry.etag, entry.sha256, here=False)
    return store.with_state(cache, bare)


def _stored(refs: list[tuple[str, FileRef]], cache: Path) -> tuple[PlannedFile, ...]:
    """The files of a pair as the cache has them; none unless all are there."""
    found = [list(_newest(role, ref, cache)) for role, ref in refs]
    return tuple(file for files in found for file in files) if all(found) else ()


def _newest(role: str, ref: FileRef, cache: Path) -> Iterator[PlannedFile]:
    repo, revision = _key(ref)
    folders = store.snapshots(cache, repo, revision)
    for folder in folders:
        here = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.[gG][gG][uU][fF]")}
        try:
            names = wanted(ref, (name for name, path in here.items() if path.is_file()))
        except HubError:
            continue
        for name in names:
            path = here[name]
            etag, size = path.resolve().name, path.stat().st_size
            yield PlannedFile(role, repo, name, folder.name, folder.name, size, etag, None, here=True)
        return


def _elsewhere(role: str, ref: FileRef) -> str:
    if ref.path:
        here = "" if Path(ref.path).is_file() else ", which is not there"
        return f"The {role} is a file of your own, {ref.path}{here}."
    try:
        return f"The {role} comes with a Python package that is installed: {catalog.locate(ref)}"
    except LocalspecError as missing:
        return f"The {role} comes with a Python package. {missing.hint}"


def _check_disk(made: Plan) -> None:
    missing, free = made.missing_bytes, free_bytes(made.cache)
    if missing and free < missing + SPARE_BYTES:
        raise LocalspecError(
            f"{missing / 1e9:.1f} GB are to be fetched, but {made.cache} has only {free / 1e9:.1f} GB free.",
            "Keep 1 GB to spare: make room (`localspec scan` shows what is stored), or let HF_HUB_CACHE name "
            "a folder on a larger disk.",
        )
