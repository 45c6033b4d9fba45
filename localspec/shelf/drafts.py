"""What could draft for a target: the files that are here with the verdict on each, and the ways to do without a file.

Reads headers, which takes a moment for each file: not for a thread that draws. Knows no widget.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec import catalog, gguf
from localspec.catalog import Pair
from localspec.errors import ModelLoadError
from localspec.shelf.found import LocalFile, is_head, local_files

# In the order in which they are listed.
FITS, WITHOUT, ABSENT, TRANSLATED, REFUSED = range(5)
OWN = "of this pair"
NO_SMALLER = "it is no smaller than the target, so drafting costs as much as it can save"


@dataclass(frozen=True, slots=True)
class Draft:
    """`said` is what it does, or why it can't. `method` is the one to begin with."""

    name: str
    said: str
    rank: int
    path: str | None = None
    method: str = "auto"
    size: int = 0

    @property
    def key(self) -> str:
        return self.path or self.name


DOING_WITHOUT = (
    Draft("no draft: auto", "from the text, and from the model's own prediction layers, where that pays", WITHOUT),
    Draft("no draft: lookup", "what followed the same words earlier in this conversation", WITHOUT, None, "lookup"),
    Draft("no draft: suffix", "what usually followed, also in your earlier answers", WITHOUT, None, "suffix"),
    Draft("no draft: off", "plain decoding", WITHOUT, None, "off"),
)


def absent(pair: Pair) -> tuple[Draft, ...]:
    """The draft of the pair, where it is not here yet."""
    if pair.draft is None or catalog.seek(pair.draft):
        return ()
    said = "the draft of this pair is not here yet: Enter fetches it"
    return (Draft(Path(str(pair.draft)).name, said, ABSENT, size=pair.draft.size or 0),)


def candidates(target: str, pair: Pair | None, folders: Sequence[Path] = ()) -> list[LocalFile]:
    """Heads and models that are here, the pair's own draft first."""
    own = catalog.seek(pair.draft) if pair and pair.draft else None
    first = [LocalFile(own, own.stem, OWN, own.stat().st_size)] if own else []
    packaged = [path for each in catalog.load_pairs().values() if (path := _packaged(each)) is not None]
    others = [LocalFile(path, path.stem, "package", path.stat().st_size) for path in packaged]
    found = [*first, *local_files(folders, heads=True), *local_files(folders), *others]
    apart = {file.path.resolve(): file for file in reversed(found)}
    return [file for file in found if apart[file.path.resolve()] is file and not file.path.samefile(target)]


def judged(target: str, files: Iterable[LocalFile]) -> Iterator[Draft]:
    """The verdict on one file after the other. Raises ModelLoadError for a target that can't be loaded."""
    from localspec.pairing import pair

    header = gguf.check(target)
    whole = sum(Path(part).stat().st_size for part in gguf.shards(header))
    for file in files:
        if file.size >= whole and file.source != OWN and not is_head(file.path.name):
            yield _refused(file, NO_SMALLER)
            continue
        try:
            found = pair(header, str(file.path))
        except (ModelLoadError, OSError) as error:
            yield _refused(file, getattr(error, "reason", None) or str(error))
            continue
        if found.method is None:
            yield _refused(file, found.reason)
        elif found.method == "translated":
            said = f"drafts translated, which accepts less: {found.reason}"
            yield Draft(file.name, said, TRANSLATED, str(file.path), size=file.size)
        else:
            said = "; ".join((f"{found.method}: {found.reason}", *found.remarks))
            yield Draft(file.name, said, FITS, str(file.path), size=file.size)


def _refused(file: LocalFile, reason: str) -> Draft:
    return Draft(file.name, reason, REFUSED, str(file.path), size=file.size)


def _packaged(pair: Pair) -> Path | None:
    return catalog.seek(pair.target) if pair.target.package else None
