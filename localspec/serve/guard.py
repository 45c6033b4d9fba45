"""Who may ask: the key, the page that a browser shows, and the name that the server was called by.

Every web page can reach a server on loopback. So a browser's request is taken only from pages that were named, and on
loopback only under a loopback name; what is left is programs of this machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localspec import keyfile
from localspec.addresses import is_loopback_name
from localspec.serve.refusal import Refused

_OPEN = "/health"  # for those who only want to know whether it lives
_METHODS = "GET, POST, OPTIONS"
_HEADERS = "authorization, content-type"


@dataclass(frozen=True, slots=True)
class Rules:
    keys: tuple[str, ...] = ()  # none: no key is asked for
    origins: tuple[str, ...] = ()  # pages whose scripts may ask
    local: bool = True  # bound to loopback: other names are some page's trick


class Guard:
    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app, self._rules = app, rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        try:
            self._check_place(headers.get("host", ""), origin)
            if origin and scope["method"] == "OPTIONS":
                await Response(status_code=204, headers=_shared(origin))(scope, receive, send)
                return
            if scope["path"] != _OPEN:
                self._check_key(headers.get("authorization", ""))
        except Refused as refused:
            await answer(refused)(scope, receive, send)
            return
        await self._app(scope, receive, _sharing(send, origin) if origin else send)

    def _check_place(self, host: str, origin: str | None) -> None:
        if self._rules.local and not is_loopback_name(_name_of(host)):
            raise Refused(403, f"This server does not go by the name {host!r}.", code="wrong_host")
        if origin and origin not in self._rules.origins:
            text = f"Pages of {origin} may not ask. Start the server with --cors-origin {origin} to allow them."
            raise Refused(403, text, code="wrong_origin")

    def _check_key(self, authorization: str) -> None:
        scheme, _, key = authorization.partition(" ")
        right = keyfile.is_among(key.strip(), self._rules.keys)
        if self._rules.keys and not (right and scheme.lower() == "bearer"):
            text = "The API key is missing or wrong. Send it as: Authorization: Bearer KEY"
            raise Refused(401, text, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})


def answer(refused: Refused) -> JSONResponse:
    return JSONResponse(refused.body, refused.status, refused.headers)


def _name_of(host: str) -> str:
    """Without the port."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _shared(origin: str) -> dict[str, str]:
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Methods": _METHODS,
        "Access-Control-Allow-Headers": _HEADERS,
        "Access-Control-Max-Age": "600",
        "Vary": "Origin",
    }


def _sharing(send: Send, origin: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers.add_vary_header("Origin")
        await send(message)

    return sending
