"""Where models come from, as the screens see it: folders, downloads that go on, and how a choice is loaded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from localspec.opening import Chosen
from localspec.shelf.fetching import Downloads


@dataclass(frozen=True, slots=True)
class Supply:
    """`chosen` gives what the engine is asked for, and raises LocalspecError. `asked` is the pair that was configured,
    where it is not here."""

    chosen: Chosen
    folders: tuple[Path, ...] = ()
    n_ctx: int | None = None
    downloads: Downloads = field(default_factory=Downloads)
    asked: str = ""
