"""The routes, and one shape for everything that goes wrong."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from localspec.engine.messages import Generate, Ready
from localspec.serve import metrics
from localspec.serve.answering import Reply
from localspec.serve.desk import Desk
from localspec.serve.fields import Asked, Kind, asked, parsed
from localspec.serve.guard import Guard, Rules, answer
from localspec.serve.reading import body_of
from localspec.serve.refusal import Refused, unavailable
from localspec.serve.replies import Spell, Voice

log = logging.getLogger(__name__)
_ANY = "localspec"  # a name that every localspec server goes by


@dataclass(slots=True)
class Service:
    """`spelling` opens the vocabulary, in a thread; it is asked once, when log-probabilities are."""

    desk: Desk
    model: str
    defaults: Generate
    spelling: Callable[[str], Spell]
    max_tokens: int | None = None
    max_body: int = 2 << 20
    created: int = field(default_factory=lambda: int(time.time()))
    _spell: Spell | None = None
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)

    def app(self, rules: Rules) -> ASGIApp:
        routes = [
            Route("/v1/chat/completions", self._completing("chat"), methods=["POST"]),
            Route("/v1/completions", self._completing("text"), methods=["POST"]),
            Route("/v1/models", self._models),
            Route("/v1/models/{name:path}", self._one_model),
            Route("/health", self._health),
            Route("/metrics", self._metrics),
        ]
        handlers: dict[Any, Any] = {Refused: self._refused, HTTPException: _http, Exception: _bug}
        return Starlette(routes=routes, exception_handlers=handlers, middleware=[Middleware(Guard, rules=rules)])

    def _completing(self, kind: Kind) -> Callable[[Request], Any]:
        async def complete(request: Request) -> Any:
            try:
                return await self._complete(request, kind)
            except ClientDisconnect:
                return Response(status_code=499)

        return complete

    async def _complete(self, request: Request, kind: Kind) -> ASGIApp:
        raw = await body_of(request, self.max_body)
        body = await asyncio.to_thread(parsed, raw)
        self._check_name(body.get("model"))
        # In a thread: a large schema takes its time, and answers in progress must go on.
        wanted = await asyncio.to_thread(asked, body, kind, self.defaults, self.max_tokens)
        if (ready := self.desk.ready) is None:
            raise unavailable(self.desk.state)
        _check(wanted, ready)
        spell = await self._speller(ready) if wanted.command.logprobs is not None else None
        voice = Voice(kind, secrets.token_hex(12), int(time.time()), self.model, spell)
        return _App(Reply(self.desk, self.desk.ask(wanted.command), wanted, voice))

    async def _speller(self, ready: Ready) -> Spell:
        async with self._opening:
            if self._spell is None:
                self._spell = await asyncio.to_thread(self.spelling, ready.target.path)
            return self._spell

    def _check_name(self, name: object) -> None:
        if name not in (None, self.model, _ANY):
            text = f"There is no model named {str(name)[:80]!r}. The one that is served is {self.model!r}."
            raise Refused(404, text, param="model", code="model_not_found")

    async def _models(self, _: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._card()]})

    async def _one_model(self, request: Request) -> Response:
        self._check_name(request.path_params["name"])
        return JSONResponse(self._card())

    def _card(self) -> dict[str, Any]:
        ready, defaults = self.desk.ready, self.defaults
        card: dict[str, Any] = {
            "id": self.model,
            "object": "model",
            "created": self.created,
            "owned_by": "localspec",
        }
        if ready:
            card |= {
                "max_model_len": ready.target.n_ctx,
                "meta": {"n_ctx_train": ready.target.n_ctx_train, "n_vocab": ready.target.n_vocab},
                "speculation": {
                    "method": defaults.method,
                    "methods": list(ready.methods),
                    "reasons": dict(ready.reasons),
                    "thinks": ready.thinks,
                },
            }
        return card

    async def _health(self, _: Request) -> Response:
        if self.desk.ready is None:
            return answer(unavailable(self.desk.state))
        return JSONResponse({"status": "ok", "running": self.desk.running, "waiting": self.desk.waiting})

    async def _metrics(self, _: Request) -> Response:
        text = self.desk.metrics.text(self.model, self.desk.running, self.desk.waiting)
        return Response(text, headers={"Content-Type": metrics.CONTENT_TYPE})

    async def _refused(self, _: Request, refused: Refused) -> Response:
        self.desk.metrics.refused[refused.status] += 1
        return answer(refused)


class _App(Response):
    """Starlette asks for a response; a Reply writes its own."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.background = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._reply(scope, receive, send)


def _check(wanted: Asked, ready: Ready) -> None:
    """What can only be said once it is known which model is loaded."""
    method = wanted.command.method
    if wanted.chose and method not in ready.methods:
        reason = dict(ready.reasons).get(method, "it is not available")
        text = f"Method {method!r} does not work here: {reason}. There are: {', '.join(ready.methods)}."
        raise Refused(400, text, param="speculative_config", code="unsupported_value")
    if any(token >= ready.target.n_vocab for token in wanted.command.resume):
        raise Refused(400, "localspec.resume holds a token that this model lacks.", param="localspec")


async def _http(_: Request, error: HTTPException) -> Response:
    return answer(Refused(error.status_code, f"{error.detail}.", headers=error.headers or {}))


async def _bug(_: Request, error: Exception) -> Response:
    log.error("bug while answering a request", exc_info=error)
    return answer(Refused(500, "Internal error. This is a bug; the log has the details.", code="internal_error"))
