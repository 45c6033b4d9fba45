"""HTTP to one server: connections, and the lines of a stream. Every failure is a LocalspecError."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx2

from localspec import __version__
from localspec.addresses import probes
from localspec.engine.remote.failures import Unreachable, explain, refused
from localspec.engine.remote.site import Address

_TIMEOUT = httpx2.Timeout(10.0, connect=5.0, read=None)
_LOOK_S = 10.0  # for a page that is ready at once
_LARGEST = 16 << 20  # bytes of one line, or of a page
_STEP_S = 0.05  # between two looks at what the user wants


def connect(address: Address) -> httpx2.AsyncClient:
    headers = {"User-Agent": f"localspec/{__version__}"}
    if address.key:
        headers["Authorization"] = f"Bearer {address.key}"
    proxied = not address.is_local and getproxies().get(urlsplit(address.base).scheme)
    transport = None if proxied else httpx2.AsyncHTTPTransport(socket_options=probes())
    return httpx2.AsyncClient(transport=transport, headers=headers, timeout=_TIMEOUT)


async def page(client: httpx2.AsyncClient, address: Address, path: str) -> str:
    """A page as text; raises where there is none."""
    try:
        async with asyncio.timeout(_LOOK_S), client.stream("GET", address.base + path) as response:
            if response.status_code != 200:
                raise await refused(response, address)
            return (await _read(response)).decode("utf-8", "replace")
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError, OSError) as error:
        raise explain(error, address) from None


async def table(client: httpx2.AsyncClient, address: Address, path: str) -> dict[str, Any]:
    try:
        found = json.loads(await page(client, address, path))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        hint = "Give the address of the server itself, such as http://127.0.0.1:8080"
        raise Unreachable(f"{address.base}{path} is no answer of the OpenAI protocol.", hint)
    return found


async def _read(response: httpx2.Response) -> bytes:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        size += len(part)
        if size > _LARGEST:
            break
        parts.append(part)
    return b"".join(parts)


async def lines(response: httpx2.Response) -> AsyncIterator[str]:
    """The lines of a stream. Only line feeds end them: some servers send other separators inside of JSON."""
    rest = b""
    async for part in response.aiter_bytes():
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r").decode("utf-8", "replace")
        if len(rest) > _LARGEST:
            raise httpx2.DecodingError("a line without an end")


async def watched(work: Any, patience_s: float, interrupted: Callable[[], bool]) -> Any:
    """The result of `work`; None as soon as `interrupted`. Raises TimeoutError when it takes longer than this."""
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    until = loop.time() + patience_s
    try:
        while not (await asyncio.wait({task}, timeout=_STEP_S))[0]:
            if interrupted():
                return None
            if loop.time() > until:
                raise TimeoutError
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            with suppress(BaseException):
                await task
