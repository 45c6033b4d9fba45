"""The body of a request, of a bounded size and within bounded time."""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from localspec.serve.refusal import Refused

_PATIENCE_S = 30.0


async def body_of(request: Request, most: int) -> bytes:
    """Raises Refused for one that is too large, too slow or no JSON."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":  # a page may send other types without asking
        raise Refused(415, "The body must come as Content-Type: application/json.", code="wrong_content_type")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refused(415, "The body must not be compressed.", code="wrong_content_encoding")
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > most:
        raise _too_large(most)
    try:
        return await asyncio.wait_for(_collected(request, most), _PATIENCE_S)
    except TimeoutError:
        text = "The body did not arrive in time."
        raise Refused(408, text, code="timeout", headers={"Connection": "close"}) from None


async def _collected(request: Request, most: int) -> bytes:
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    return b"".join(parts)


def _too_large(most: int) -> Refused:
    text = f"The body is larger than {most:,} bytes."
    return Refused(413, text, code="body_too_large", headers={"Connection": "close"})
