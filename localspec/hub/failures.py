"""What went wrong between here and the Hub, as sentences for people.

No text of a native error is passed on unread: it may hold a header, a signed address or a proxy's password.
"""

from __future__ import annotations

import errno
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2
from huggingface_hub import errors as native

from localspec.errors import LocalspecError, UsageError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


class HubError(LocalspecError):
    """The Hub said no, or what it sent is not what it promised."""


class Unreachable(HubError):
    """Nobody asked the Hub or nobody answered: what is in the cache may still do."""


class Offline(Unreachable):
    def __init__(self) -> None:
        super().__init__("HF_HUB_OFFLINE is set, so the Hub is not asked.", "Unset it to download.")


class NotTheHub(Unreachable):
    def __init__(self, endpoint: str) -> None:
        super().__init__(
            f"Something answers at {endpoint}, but it is not the Hub.",
            "A network's login page or a company's proxy may stand in between: open that address in a browser. "
            "If HF_ENDPOINT is set, check it.",
        )


class Broken(Exception):
    """A transfer that ended early, or an answer that another attempt may not get."""

    def __init__(self, reason: str, wait_s: float = 0, status: int = 0) -> None:
        super().__init__(reason)
        self.wait_s, self.status = wait_s, status


def explain(error: Exception, repo: str, endpoint: str, *, with_token: bool) -> LocalspecError:
    """The sentence for whatever a request to `repo` raised."""
    if isinstance(error, LocalspecError):
        return error
    if isinstance(error, native.OfflineModeIsEnabled):
        return Offline()
    if isinstance(error, native.HFValidationError):
        return UsageError(f"{repo!r} is not the name of a repository.", "It looks like owner/name.")
    if isinstance(error, native.HfHubHTTPError):
        return _refused(error, repo, endpoint, with_token)
    if isinstance(error, Broken) and error.status:
        return _by_status(error.status, repo, endpoint)
    if isinstance(error, Broken):
        return Unreachable(
            f"The download from {repo} fails again and again: {error}.", "Pull again later to go on."
        )
    if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL | UnicodeEncodeError):
        return _unreachable(error, endpoint)
    return NotTheHub(endpoint)  # its answer could not be read


def on_disk(error: OSError, folder: Path) -> LocalspecError:
    """The sentence for what the file system said while the cache was written."""
    if error.errno in _FULL:
        return HubError(
            f"The disk that holds {folder} is full.",
            "What has arrived is kept: make room (`localspec scan` shows what is stored), then pull again.",
        )
    if error.errno in _FORBIDDEN:
        return HubError(
            f"{folder} can't be written to.",
            "Change its permissions, or let HF_HUB_CACHE name a folder of your own.",
        )
    return HubError(f"{folder}: {error.strerror or type(error).__name__}.", "Check the disk, then pull again.")


def _refused(error: native.HfHubHTTPError, repo: str, endpoint: str, with_token: bool) -> LocalspecError:
    page = f"{endpoint}/{repo}"
    get_token = "set HF_TOKEN, or run: hf auth login"
    if isinstance(error, native.GatedRepoError) and not with_token:
        message = f"{repo} is only for people who accepted its terms, and there is no token that says who you are."
        return HubError(message, f"Accept the terms at {page}, then {get_token}")
    if isinstance(error, native.GatedRepoError):
        message = f"The account of your token has not been let into {repo}: its terms are not accepted yet."
        return HubError(message, f"Accept them at {page}, then pull again.")
    if isinstance(error, native.RepositoryNotFoundError):
        owner = "the token that is set can't see it" if with_token else "no token is set"
        hint = "Ask its owner for access." if with_token else f"If it is yours, {get_token}"
        return HubError(f"There is no repository {repo}, or it is private and {owner}.", f"Check the name. {hint}")
    if isinstance(error, native.RevisionNotFoundError):
        return HubError(f"{repo} no longer has that revision.", f"See what it has: {page}/commits/main")
    if isinstance(error, native.EntryNotFoundError):
        return HubError(f"A file of {repo} is no longer there.", f"See what it has: {page}/tree/main")
    return _by_status(error.response.status_code, repo, endpoint)


def _by_status(status: int, repo: str, endpoint: str) -> LocalspecError:
    if status == 401:
        return HubError(
            f"{endpoint} does not accept the token that is set: it is mistyped, expired or withdrawn.",
            "Set another one in HF_TOKEN or with `hf auth login`, or unset it: public models need none.",
        )
    if status == 403:
        return HubError(f"{endpoint} forbids access to {repo}.", "A token needs the right to read this repository.")
    if status == 407:
        return _proxy_refuses()
    if status == 429:
        return Unreachable(
            "The Hub asks for a pause: too many requests came from here.", "Try again in some minutes."
        )
    if status >= 500:
        return Unreachable(f"The Hub has a problem of its own (status {status}).", "Try again later.")
    return HubError(f"The Hub answered {repo} with status {status}.", "Try again; check HF_ENDPOINT if it is set.")


def _unreachable(error: Exception, endpoint: str) -> LocalspecError:
    host, proxy = urlsplit(endpoint).netloc.rpartition("@")[2], _proxy(endpoint)
    text = str(error)
    if isinstance(error, httpx2.ProxyError):
        return _proxy_refuses()
    if isinstance(error, httpx2.LocalProtocolError | UnicodeEncodeError):
        return _odd_token()
    if "CERTIFICATE" in text.upper():
        hint = "A proxy may replace it: let SSL_CERT_FILE name its certificate. A wrong clock does the same."
        return Unreachable(f"The certificate of {host} can't be trusted.", hint)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        through = f" through the proxy {proxy}" if proxy else ""
        hint = (
            f"Check {urlsplit(endpoint).scheme.upper()}_PROXY."
            if proxy
            else "Check the network. Models that are here work without it."
        )
        return Unreachable(f"{host} can't be reached{through}.", hint)
    if isinstance(error, httpx2.TimeoutException):
        return Unreachable(f"{host} stopped answering.", "What has arrived is kept; pull again to go on.")
    return Unreachable(f"The connection to {host} breaks again and again.", "Pull again later to go on.")


def _odd_token() -> LocalspecError:
    return UsageError("The token holds characters that no token has.", "Correct HF_TOKEN or the stored token.")


def _proxy_refuses() -> LocalspecError:
    proxies = {name: _bare(address) for name, address in getproxies().items() if name in ("http", "https", "all")}
    which = next(iter(proxies.values()), "between here and the Hub")
    return Unreachable(
        f"The proxy {which} refuses the connection.",
        "Check HTTPS_PROXY and HTTP_PROXY; a proxy that asks for a password takes http://user:password@host:port.",
    )


def _proxy(endpoint: str) -> str:
    proxies, parts = getproxies(), urlsplit(endpoint)
    bypassed = proxy_bypass(parts.hostname or "")
    address = None if bypassed else proxies.get(parts.scheme) or proxies.get("all")
    return _bare(address) if address else ""


def _bare(address: str) -> str:
    """Without the password."""
    return urlsplit(address if "://" in address else f"http://{address}").netloc.rpartition("@")[2]
