"""The Hub cache on disk, in the layout of the Hub's own client, so that no file is ever stored twice.

    <cache>/.locks/models--owner--name/<etag>.lock
    <cache>/models--owner--name/blobs/<etag>                  a whole file
                                blobs/<etag>.localspec.part   what an interrupted download left
                                blobs/<etag>.localspec.json   where it came from; stays, to tell our files from others
                                snapshots/<commit>/<name>     a link to the blob, or the file where links don't work
                                refs/<branch>                 the commit that the branch meant last

Only the two `.localspec` files are ours alone. Knows paths, and nothing of the network.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from filelock import FileLock, SoftFileLock, Timeout
from huggingface_hub import constants

from localspec.hub.types import PlannedFile

PART, MARK = ".localspec.part", ".localspec.json"
_POLL_S = 0.2
_COMMIT = re.compile(r"[0-9a-f]{40}")


def repo_folder(cache: Path, repo: str) -> Path:
    return cache / f"models--{repo.replace('/', '--')}"


def blob(cache: Path, file: PlannedFile) -> Path:
    return repo_folder(cache, file.repo) / "blobs" / file.etag


def part(cache: Path, file: PlannedFile) -> Path:
    return _beside(blob(cache, file), PART)


def mark(cache: Path, file: PlannedFile) -> Path:
    return _beside(blob(cache, file), MARK)


def pointer(cache: Path, file: PlannedFile) -> Path:
    """Where programs find the file under its name."""
    return repo_folder(cache, file.repo) / "snapshots" / file.commit / file.name


def is_here(cache: Path, file: PlannedFile) -> bool:
    return any(_size(path) == file.size for path in (blob(cache, file), pointer(cache, file)))


def partial(cache: Path, file: PlannedFile) -> int:
    return min(_size(part(cache, file)) or 0, file.size)


def with_state(cache: Path, file: PlannedFile) -> PlannedFile:
    """The same file, with what the cache has of it."""
    return replace(file, here=is_here(cache, file), partial=partial(cache, file))


def snapshots(cache: Path, repo: str, revision: str) -> list[Path]:
    """The folder of each commit that is stored, the one that `revision` means first, then the newest."""
    folder = repo_folder(cache, repo)
    ref = folder / "refs" / revision
    meant = ref.read_text("utf-8").strip() if os.path.isfile(ref) else revision
    if _COMMIT.fullmatch(revision):
        return [path for path in (folder / "snapshots" / revision,) if path.is_dir()]
    newest = sorted(folder.glob("snapshots/*"), key=lambda path: path.stat().st_mtime, reverse=True)
    return sorted(newest, key=lambda path: path.name != meant)


def prepare(cache: Path, file: PlannedFile) -> None:
    """The folders. Other tools take a repository without `snapshots` for damaged."""
    for folder in (blob(cache, file).parent, pointer(cache, file).parent.parent, lock(cache, file).parent):
        folder.mkdir(parents=True, exist_ok=True)


def lock(cache: Path, file: PlannedFile) -> Path:
    return lock_of(blob(cache, file))


def lock_of(blob_path: Path) -> Path:
    """The lock that the Hub's own client takes for the same blob."""
    folder = blob_path.parent.parent
    return folder.parent / ".locks" / folder.name / f"{blob_path.name}.lock"


@contextmanager
def held(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """`waiting` is called again and again while somebody else has the lock; it may raise."""
    wait: FileLock | SoftFileLock = FileLock(path, mode=0o664)
    while True:
        try:
            wait.acquire(timeout=_POLL_S)
            break
        except Timeout:
            waiting()
        except NotImplementedError:  # a file system without locks
            wait = SoftFileLock(path)
    try:
        yield
    finally:
        with suppress(OSError):
            wait.release()


def write_mark(cache: Path, file: PlannedFile, validator: str | None) -> None:
    """`validator` is the entity tag of the server that really sends the bytes; a part continues only with it."""
    facts = {"repo": file.repo, "name": file.name, "commit": file.commit, "size": file.size, "etag": validator}
    path = mark(cache, file)
    fresh = path.with_suffix(".tmp")
    fresh.write_text(json.dumps(facts), "utf-8")
    fresh.replace(path)


def read_mark(path: Path) -> dict[str, Any]:
    """Empty where there is none that can be read."""
    try:
        facts = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def keep(cache: Path, file: PlannedFile) -> None:
    """The verified part becomes the blob."""
    part(cache, file).replace(blob(cache, file))


def link(cache: Path, file: PlannedFile) -> Path:
    """Make the blob appear under its name, and the branch that was asked for mean this commit."""
    path, source = pointer(cache, file), blob(cache, file)
    path.parent.mkdir(parents=True, exist_ok=True)
    if _size(path) != file.size:
        path.unlink(missing_ok=True)
        _point(path, source)
    if not _COMMIT.fullmatch(file.revision):
        ref = repo_folder(cache, file.repo) / "refs" / file.revision
        ref.parent.mkdir(parents=True, exist_ok=True)
        if not ref.is_file() or ref.read_text("utf-8") != file.commit:
            ref.write_text(file.commit, "utf-8")
    return path


def _point(path: Path, source: Path) -> None:
    """A relative link, so that the cache can be moved. Where there are none the file itself goes: one copy only."""
    if not constants.HF_HUB_DISABLE_SYMLINKS:
        try:
            path.symlink_to(os.path.relpath(source, path.parent))
        except FileExistsError:  # another program was faster
            return
        except (OSError, NotImplementedError):
            pass
        else:
            return
    source.replace(path)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(path.name + ending)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
