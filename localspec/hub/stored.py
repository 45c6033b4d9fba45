"""What the Hub cache holds of models: files, what interrupted downloads left, and how to delete them safely.

The cache belongs to every program that uses the Hub. `ours` says that this program fetched a file; others may use it
all the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout
from huggingface_hub import scan_cache_dir

from localspec import catalog
from localspec.hub import store
from localspec.hub.failures import HubError, on_disk


@dataclass(frozen=True, slots=True)
class StoredFile:
    repo: str
    name: str
    commits: tuple[str, ...]  # the snapshots that have it
    paths: tuple[Path, ...]  # one in each of them
    blob: Path
    size: int
    ours: bool


@dataclass(frozen=True, slots=True)
class Partial:
    """What an interrupted download left. `name` is empty where it belongs to another program."""

    repo: str
    name: str
    path: Path
    size: int
    age_s: float
    ours: bool
    busy: bool  # somebody is downloading it now


@dataclass(frozen=True, slots=True)
class Stored:
    cache: Path
    files: tuple[StoredFile, ...]
    partials: tuple[Partial, ...]

    @property
    def size(self) -> int:
        blobs = {file.blob: file.size for file in self.files}
        return sum(blobs.values()) + sum(part.size for part in self.partials)


def scan(cache: Path | None = None) -> Stored:
    """Every GGUF file and every partial file; asks nobody."""
    folder = (cache or catalog.hub_cache()).resolve()
    repos = sorted(path for path in folder.glob("models--*--*") if path.is_dir())
    files = [file for repo in repos for file in _files(repo)]
    partials = [part for repo in repos for part in _partials(repo)]
    return Stored(folder, tuple(files), tuple(partials))


def remove(stored: Stored, files: Iterable[StoredFile], partials: Iterable[Partial] = ()) -> int:
    """Delete them and return the bytes freed; a blob that another name still points to stays."""
    files, partials = tuple(files), tuple(partials)
    freed = 0
    try:
        for part in partials:
            freed += _remove_partial(part)
        freed += _remove_files(stored.cache, files)
        for repo in {file.repo for file in files} | {part.repo for part in partials}:
            _tidy(stored.cache, store.repo_folder(stored.cache, repo))
    except OSError as error:
        raise on_disk(error, stored.cache) from None
    return freed


def _repo_name(folder: Path) -> str:
    return folder.name.removeprefix("models--").replace("--", "/")


def _files(folder: Path) -> Iterator[StoredFile]:
    snapshots: dict[tuple[str, Path], list[Path]] = {}
    for path in sorted(folder.glob("snapshots/*/**/*")):
        if path.suffix.lower() == ".gguf" and path.is_file():
            name = "/".join(path.relative_to(folder / "snapshots").parts[1:])
            snapshots.setdefault((name, path.resolve()), []).append(path)
    for (name, blob), paths in snapshots.items():
        commits = tuple(path.relative_to(folder / "snapshots").parts[0] for path in paths)
        yield StoredFile(
            _repo_name(folder), name, commits, tuple(paths), blob, blob.stat().st_size, _ours(folder, name, commits)
        )


def _ours(folder: Path, name: str, commits: tuple[str, ...]) -> bool:
    marks = map(store.read_mark, folder.glob(f"blobs/*{store.MARK}"))
    return any(mark.get("name") == name and mark.get("commit") in commits for mark in marks)


def _partials(folder: Path) -> Iterator[Partial]:
    now = time.time()
    for path in sorted(folder.glob("blobs/*")):
        ours = path.name.endswith(store.PART)
        if ours or path.name.endswith(".incomplete"):
            stat, blob = path.stat(), path.with_name(path.name.partition(".")[0])
            name = store.read_mark(path.with_name(blob.name + store.MARK)).get("name", "") if ours else ""
            busy = _is_locked(store.lock_of(blob))
            yield Partial(_repo_name(folder), name, path, stat.st_size, now - stat.st_mtime, ours, busy)


def _is_locked(lock: Path) -> bool:
    if not lock.exists():
        return False
    try:
        with FileLock(lock, timeout=0, mode=0o664):
            return False
    except Timeout:
        return True
    except (OSError, NotImplementedError):  # a cache that can only be read, or one without locks
        return False


@contextmanager
def _unused(blob: Path) -> Iterator[None]:
    """Nobody downloads it meanwhile."""
    lock = store.lock_of(blob)
    lock.parent.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(lock, timeout=0, mode=0o664):
            yield
    except Timeout:
        raise HubError(
            f"A file of {_repo_name(blob.parent.parent)} is being downloaded right now.", "Stop that first."
        ) from None


def _remove_partial(part: Partial) -> int:
    blob = part.path.with_name(part.path.name.partition(".")[0])
    with _unused(blob):
        part.path.unlink(missing_ok=True)
        if not blob.exists():
            blob.with_name(blob.name + store.MARK).unlink(missing_ok=True)
    return part.size


def _remove_files(cache: Path, files: tuple[StoredFile, ...]) -> int:
    """Through the Hub's client: it knows which blobs several repositories share."""
    paths = {path for file in files for path in file.paths}
    if not paths:
        return 0
    info = scan_cache_dir(cache)
    known = [
        file
        for repo in info.repos
        for revision in repo.revisions
        for file in revision.files
        if file.file_path in paths
    ]
    if missed := paths - {file.file_path for file in known}:
        folder = next(iter(missed)).relative_to(cache).parts[0]
        raise HubError(f"The cache folder {cache / folder} is damaged.", "Delete it by hand.")
    plan = info.delete_files(*known)
    marks = {file.blob_path.with_name(file.blob_path.name + store.MARK) for file in known}
    plan.execute()
    left = sorted(path.name for path in paths if path.exists() or path.is_symlink())
    if left:
        raise HubError(f"{left[0]} could not be deleted.", "Close the programs that use it, then try again.")
    for mark in marks:
        if not mark.with_name(mark.name.removesuffix(store.MARK)).exists():
            mark.unlink(missing_ok=True)
    return int(plan.expected_freed_size)


def _tidy(cache: Path, repo: Path) -> None:
    """Snapshots without a file go, with the branches that mean them; the whole folder when none is left."""
    if any(repo.glob("blobs/*.part")) or any(repo.glob("blobs/*.incomplete")):
        return
    info = scan_cache_dir(cache)
    found = (each for each in info.repos if each.repo_path == repo)
    empty = [revision.commit_hash for each in found for revision in each.revisions if not revision.files]
    if empty:
        info.delete_revisions(*empty).execute()
