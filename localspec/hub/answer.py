"""One GET for the rest of a file: asks the Hub, follows to where the bytes are, and says what the answer is worth.

The token goes to the Hub's own address and nowhere else; a redirect may only lead to http or https, and never from
https back to http.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from socket import SHUT_RDWR

import httpx2
from huggingface_hub import get_session, hf_hub_url
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import hf_raise_for_status  # type: ignore[attr-defined]

from localspec.hub import site
from localspec.hub.failures import Broken, HubError, NotTheHub
from localspec.hub.types import PlannedFile

_MOST_HOPS = 6
_LONGEST_WAIT_S = 60.0
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
_WAKE_S = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    start: int  # the bytes begin here: where they were asked for, or at 0
    validator: str | None  # a strong entity tag
    response: httpx2.Response


@contextmanager
def rest_of(
    file: PlannedFile, start: int, validator: str | None, connect_s: float, stall_s: float
) -> Iterator[Answer]:
    """Raises Broken, or an error of httpx2, where another attempt may do better."""
    headers = site.headers() | {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
        if validator:
            headers["If-Range"] = validator
    url = hf_hub_url(file.repo, file.name, revision=file.commit, endpoint=site.endpoint())
    response = _follow(httpx2.URL(url), headers, httpx2.Timeout(connect_s, read=stall_s))
    try:
        yield _weighed(response, file, start, httpx2.URL(url))
    finally:
        response.close()


@contextmanager
def waking(response: httpx2.Response, cancelled: Callable[[], bool]) -> Iterator[None]:
    """Ends a read that waits for a silent server as soon as the user gives up."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(_WAKE_S):
            if cancelled():
                with suppress(OSError, KeyError, AttributeError):  # it may have ended by itself
                    response.extensions["network_stream"].get_extra_info("socket").shutdown(SHUT_RDWR)
                return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _follow(url: httpx2.URL, headers: Mapping[str, str], timeout: httpx2.Timeout) -> httpx2.Response:
    client, sent, origin = get_session(), dict(headers), url.origin
    for _ in range(_MOST_HOPS):
        request = client.build_request("GET", url, headers=sent, timeout=timeout)
        response = client.send(request, stream=True, follow_redirects=False)
        if not response.has_redirect_location:
            return response
        response.close()
        url = httpx2.URL(followed(str(url), response.headers["Location"]))
        if url.origin != origin:
            sent.pop("authorization", None)
    raise HubError("The Hub sends from one address to the next without an end.", "Try again later.")


def followed(url: str, location: str) -> str:
    """Where a redirect from `url` leads; raises LocalspecError where it must not be followed."""
    try:
        here, target = httpx2.URL(url), httpx2.URL(url).join(location)
    except httpx2.InvalidURL:
        raise HubError("The Hub sends to an address that is none.", "Try again later.") from None
    if target.scheme not in ("http", "https") or (here.scheme, target.scheme) == ("https", "http"):
        message = f"The Hub sends to an address that begins with {target.scheme[:20]}: it is not followed."
        raise HubError(message, "A proxy may be at work. If HF_ENDPOINT is set, check it.")
    return str(target)


def _weighed(response: httpx2.Response, file: PlannedFile, start: int, asked: httpx2.URL) -> Answer:
    status = response.status_code
    if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        raise _changed(file)
    if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
        raise _refusal(response, asked)
    if "html" in response.headers.get("content-type", "").lower():
        raise NotTheHub(site.endpoint())
    begins, total = _extent(response)
    if total not in (None, file.size):
        raise _changed(file)
    if begins not in (0, start):
        raise Broken("the server sent another range")
    etag = response.headers.get("etag", "")
    return Answer(begins, etag if etag.startswith('"') else None, response)


def _changed(file: PlannedFile) -> HubError:
    return HubError(f"{file.name} is no longer what the Hub listed.", "Pull again to get the new one.")


def _extent(response: httpx2.Response) -> tuple[int, int | None]:
    """Where the body begins, and how long the whole file is."""
    if response.status_code == HTTPStatus.OK:
        length = response.headers.get("content-length", "")
        return 0, int(length) if length.isdigit() else None
    match = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("content-range", ""))
    if match is None:
        raise Broken("the server sent a part without saying which")
    return int(match[1]), None if match[2] == "*" else int(match[2])


def _refusal(response: httpx2.Response, asked: httpx2.URL) -> Exception:
    """What a status other than 200 and 206 means: try again, or the Hub client's own error for it."""
    status = response.status_code
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        after = response.headers.get("retry-after", "")
        wait = min(float(after), _LONGEST_WAIT_S) if after.isdigit() else 0
        return Broken(f"the server answered with status {status}", wait, status)
    if response.request.url.origin != asked.origin:
        # A storage server's address is signed and expires; the next attempt asks the Hub for a new one.
        return Broken(f"the storage server answered with status {status}")
    try:
        response.read()
        hf_raise_for_status(response)
    except (HfHubHTTPError, httpx2.HTTPError) as error:
        return error
    return NotTheHub(site.endpoint())
