"""What goes wrong with a server, in sentences. What it says itself is shown, shortened and without the key."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from localspec.chat.text import one_line
from localspec.engine.remote.site import Address
from localspec.errors import LocalspecError

_WIDTH = 300
_BUSY = {429, 502, 503, 504}
_KEY = "Put the key into LOCALSPEC_API_KEY, or into a file: --server-key-file FILE"


class Unreachable(LocalspecError):
    """No answer, or none that can be used. `again`: another try may help; `after_s`: when the server says so."""

    def __init__(self, message: str, hint: str = "", *, again: bool = False, after_s: float | None = None) -> None:
        super().__init__(message, hint)
        self.again, self.after_s = again, after_s


def explain(error: Exception, address: Address) -> Unreachable:
    """An exception of the HTTP client."""
    reason = str(error).lower()
    if "ssl" in reason and "certificate" not in reason:
        hint = "Does this server speak http:// instead?"
        return Unreachable(f"{address.host} does not speak TLS here: {_said(error, address)}.", hint)
    if "certificate" in reason:
        hint = "SSL_CERT_FILE names the authorities that are trusted."
        return Unreachable(f"The certificate of {address.host} is not in order: {_said(error, address)}.", hint)
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        hint = "Is the server running, and is this its address?"
        return Unreachable(f"Cannot reach {address.base}: {_said(error, address)}.", hint, again=True)
    if isinstance(error, TimeoutError | httpx2.TimeoutException):
        return Unreachable(f"{address.base} has fallen silent.", "Ask again, or look at the server.", again=True)
    if isinstance(error, httpx2.NetworkError | httpx2.RemoteProtocolError | OSError):
        return Unreachable(
            f"The connection to {address.base} broke.", "Ask again, or look at the server.", again=True
        )
    return Unreachable(f"{address.base}: {_said(error, address)}.")


async def refused(response: httpx2.Response, address: Address) -> Unreachable:
    """A status other than 200."""
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > 65_536:
            break
    status, said = response.status_code, told(body, address)
    if status in (401, 403):
        return Unreachable(f"{address.base} wants another key: {said}", _KEY)
    if 300 <= status < 400:
        return Unreachable(f"{address.base} leads elsewhere (status {status}).", "Give the address it leads to.")
    after = response.headers.get("retry-after", "")
    seconds = float(after) if after.isdecimal() else None
    return Unreachable(f"{address.base}: {said}", again=status in _BUSY, after_s=seconds)


def told(body: bytes, address: Address) -> str:
    """What the body of an error says."""
    try:
        return in_error(json.loads(body), address)
    except (ValueError, RecursionError):
        text = body.decode("utf-8", "replace")
        return safe(text, address) or "it says nothing more."


def in_error(body: Any, address: Address) -> str:
    """OpenAI's error object; some servers leave out a level, or send a text."""
    found = body.get("error", body) if isinstance(body, dict) else body
    if isinstance(found, dict):
        found = found.get("message") or found.get("detail") or found
    return safe(str(found), address)


def safe(text: str, address: Address) -> str:
    if address.key:
        text = text.replace(address.key, "…")
    return one_line(text, _WIDTH)


def _said(error: Exception, address: Address) -> str:
    return safe(str(error).rstrip("."), address) or type(error).__name__
