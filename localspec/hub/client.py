"""The transfer of the Hub's own client: through Xet where the repository and the installation have it.

It begins again after an interruption, and over plain HTTP it does not look at what arrived: that is done here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from huggingface_hub import hf_hub_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

from localspec.hub import site, store
from localspec.hub.failures import Broken, HubError
from localspec.hub.meter import Meter
from localspec.hub.part import digest
from localspec.hub.types import PlannedFile

_BLOCK = 1 << 20


def fetch_with_client(cache: Path, file: PlannedFile, meter: Meter, go_on: Callable[[], None]) -> None:
    """`go_on` raises when the user has stopped the download. The client has its own lock and layout."""
    go_on()
    try:
        path = hf_hub_download(
            file.repo,
            file.name,
            revision=file.commit,
            cache_dir=cache,
            token=site.token() or False,
            endpoint=site.endpoint(),
            tqdm_class=_bar(meter, go_on),
        )
    except LocalEntryNotFoundError as error:
        raise error.__cause__ if isinstance(error.__cause__, HfHubHTTPError) else Broken("no answer") from None
    except (OSError, ValueError) as error:
        if isinstance(error, HfHubHTTPError) or getattr(error, "errno", None):
            raise
        raise HubError(f"The Hub's own client could not fetch {file.name}.", "Set transfer to http.") from None
    _verify(Path(path), cache, file, go_on)


def _bar(meter: Meter, go_on: Callable[[], None]) -> type:
    """What the client takes for a progress bar of tqdm: it counts bytes written, and asks whether to go on."""

    class Bar:
        def __init__(self, *_: object, initial: int = 0, total: int | None = None, **__: object) -> None:
            self.n, self.total = initial, total

        def __enter__(self) -> Bar:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def update(self, count: int = 1) -> None:
            self.n += count
            meter.at(self.n)
            go_on()

        def _ignore(self, *_: object, **__: object) -> None:
            pass

        update_transfer = set_postfix_str = set_transfer_postfix_str = refresh = close = _ignore

    return Bar


def _verify(path: Path, cache: Path, file: PlannedFile, go_on: Callable[[], None]) -> None:
    found = digest(file)
    with path.open("rb") as data:
        while block := data.read(_BLOCK):
            found.update(block)
            go_on()
    if found.hexdigest() != file.etag:
        blob = path.parent / path.readlink() if path.is_symlink() else path
        blob.unlink()
        path.unlink(missing_ok=True)
        message = f"{file.name} arrived, but its bytes are not those that the Hub lists."
        raise HubError(message, "They were deleted. Pull again with transfer set to http.")
    store.write_mark(cache, file, None)
