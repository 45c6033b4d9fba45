"""Why a request gets no answer: a status, and a sentence in the shape that OpenAI's clients read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from localspec.engine.messages import Failed
from localspec.errors import LocalspecError

_FLAG = re.compile(r"--([a-z]+(?:-[a-z]+)*)")
_KINDS = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class Refused(LocalspecError):
    """`param` is the field of the request that is at fault, `code` a word for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.code, self.headers = status, param, code, dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        kind = _KINDS.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


def wrong(error: LocalspecError, param: str | None = None) -> Refused:
    """A mistake that the rest of the program reports in the words of the command line."""
    named = _FLAG.search(error.message)
    text = f"{error.message} {error.hint}".strip()
    field = param or (_field(named) if named else None)
    return Refused(400, _FLAG.sub(_field, text), param=field, code="invalid_value")


def failed(event: Failed) -> Refused:
    """What the engine says instead of an answer."""
    text = f"{event.message} {event.hint}".strip()
    if event.too_long:
        return Refused(400, text, param="messages", code="context_length_exceeded")
    return Refused(
        400 if event.exit_code == 2 else 500, text, code=None if event.exit_code == 2 else "engine_error"
    )


def unavailable(why: str, after_s: int = 2) -> Refused:
    """The client may try again."""
    return Refused(503, why, code="unavailable", headers={"Retry-After": str(after_s)})


def _field(named: re.Match[str]) -> str:
    return named[1].replace("-", "_")
