"""Fields of a request's body, one at a time and of the right type. Pure: raises Refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from localspec.serve.refusal import Refused

Body: TypeAlias = Mapping[str, Any]


def take(body: Body, name: str, kind: type, default: Any = None) -> Any:
    """A field of this type; null is as good as absent."""
    value = body.get(name)
    if value is None:
        return default
    if kind is float and type(value) is int:
        return _as_float(name, value)
    if type(value) is not kind:  # true is no number
        words = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise mistyped(name, words[kind], value)
    return value


def _as_float(name: str, value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise mistyped(name, "a number of ordinary size", "a longer one") from None


def text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise mistyped(name, "a text", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Refused(400, f"{name} holds half a surrogate pair.", param=name, code="invalid_value") from None
    return value


def mistyped(name: str, wanted: str, value: object) -> Refused:
    seen = repr(value)
    seen = seen if len(seen) <= 40 else f"{seen[:40]}…"
    return Refused(400, f"{name} must be {wanted}, not {seen}.", param=name, code="invalid_type")
