"""What the Hub's room hands out: a plan, its files, and how a download stands. Plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.errors import LocalspecError


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One file of a repository at one commit; of a model in parts, one part."""

    role: str  # "target" or "draft"
    repo: str
    name: str  # as the repository spells it
    revision: str  # what was asked for: a branch, or a commit
    commit: str
    size: int
    etag: str  # names its blob in the cache: the SHA-256, or the git id of a file that is kept without LFS
    sha256: str | None
    here: bool
    partial: int = 0  # bytes that an earlier download left


@dataclass(frozen=True, slots=True)
class Plan:
    """Every file that a pair needs from the Hub. `notes` are sentences about what does not come from there."""

    files: tuple[PlannedFile, ...]
    cache: Path
    notes: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def missing_bytes(self) -> int:
        return sum(file.size - file.partial for file in self.files if not file.here)


@dataclass(frozen=True, slots=True)
class Progress:
    """How the download of one file stands. `note` says why nothing moves, where there is a reason."""

    role: str
    name: str
    done: int
    total: int
    rate: float | None = None  # bytes per second over the last seconds; None before there is one
    left_s: float | None = None
    note: str = ""


class Cancelled(LocalspecError):
    """The user stopped a download. What has arrived is kept."""

    exit_code = 130

    def __init__(self) -> None:
        super().__init__("The download was stopped.", "What has arrived is kept; the next one goes on from there.")
