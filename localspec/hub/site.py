"""Where the Hub is, who asks, and what a repository holds right now."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from urllib.parse import urlsplit

from huggingface_hub import HfApi, constants, get_token
from huggingface_hub.utils import build_hf_headers, logging  # type: ignore[attr-defined]

from localspec.errors import UsageError
from localspec.hub.failures import HubError, NotTheHub, Offline, explain
from localspec.hub.names import is_safe

# The client tells standard error what it retries: that would tear up a screen.
logging.set_verbosity_error()  # type: ignore[no-untyped-call]

_TIMEOUT_S = 10.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_ETAG = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    size: int
    etag: str
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Listing:
    """A repository at one commit."""

    commit: str
    files: Mapping[str, Entry]


def endpoint() -> str:
    """Read at each call, unlike the client's own: a program may name another Hub while it runs."""
    address = (os.environ.get("HF_ENDPOINT") or constants.ENDPOINT).rstrip("/")
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.scheme in ("http", "https") and parts.hostname:
            return address
    raise UsageError(f"HF_ENDPOINT is {address!r}, which is not an address.", "It must begin with https://")


def is_offline() -> bool:
    return bool(constants.is_offline_mode())


def token() -> str | None:
    return None if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN else get_token()


def headers() -> dict[str, str]:
    """Who asks. Holds the token: never log it, never send it to another host."""
    return build_hf_headers(token=token() or False, library_name="localspec", library_version=version("localspec"))


def listing(repo: str, revision: str) -> Listing:
    """The commit and the GGUF files of a repository; raises LocalspecError."""
    if not is_safe(revision):
        raise UsageError(f"{revision!r} is no revision of {repo}.", "Name a branch, a tag or a commit.")
    if is_offline():
        raise Offline()
    secret = token()
    api = HfApi(endpoint(), token=secret or False, library_name="localspec", library_version=version("localspec"))
    try:
        info = api.model_info(repo, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
        if info.gated:  # its list is public, its files are not
            api.auth_check(repo)
        siblings = info.siblings or []
        found = [Entry(s.rfilename, s.size or 0, *_identity(s.lfs, s.blob_id)) for s in siblings]
    except Exception as error:
        raise explain(error, repo, endpoint(), with_token=secret is not None) from None
    if not _COMMIT.fullmatch(info.sha or ""):
        raise NotTheHub(endpoint())
    return Listing(str(info.sha), {entry.name: entry for entry in found})


def _identity(lfs: Mapping[str, object] | None, blob_id: str | None) -> tuple[str, str | None]:
    sha256 = str(lfs["sha256"]) if lfs else None
    return sha256 or blob_id or "", sha256


def checked(entry: Entry, repo: str) -> Entry:
    """Names and tags become paths: none may lead out of the cache."""
    if not is_safe(entry.name):
        raise HubError(f"{repo} offers a file under a name that is not safe: {entry.name!r}.", "Don't use it.")
    if not _ETAG.fullmatch(entry.etag):
        raise NotTheHub(endpoint())
    return entry
