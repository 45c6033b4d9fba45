"""Whether the alternatives of a `oneOf` can never match one value together: what makes it a plain choice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

TYPES = ("object", "array", "string", "integer", "number", "boolean", "null")
_DEPTH = 4  # references and properties looked through; beyond it, "may overlap" is the safe answer


def types_of(value: Any) -> set[str]:
    """The JSON types of a constant."""
    match value:
        case bool():
            return {"boolean"}
        case int():
            return {"integer", "number"}
        case float():
            return {"integer", "number"} if value.is_integer() else {"number"}
        case None:
            return {"null"}
        case str():
            return {"string"}
    return {"array"} if isinstance(value, list) else {"object"}


def disjoint(schemas: Sequence[Any], resolve: Callable[[Any], Any]) -> bool:
    """`resolve` finds what a $ref points to. May say False of schemas that are disjoint in a way it can't see."""
    return all(_apart(a, b, resolve, _DEPTH) for a, b in combinations(schemas, 2))


def _apart(a: Any, b: Any, resolve: Callable[[Any], Any], depth: int) -> bool:
    if depth == 0 or not (isinstance(a, dict) and isinstance(b, dict)):
        return False
    if "$ref" in a or "$ref" in b:
        a, b = (resolve(x["$ref"]) if "$ref" in x else x for x in (a, b))
        return _apart(a, b, resolve, depth - 1)
    if not _types(a) & _types(b):
        return True
    if (left := _constants(a)) is not None and (right := _constants(b)) is not None:
        return not any(x == y for x in left for y in right)
    shared = set(a.get("required", ())) & set(b.get("required", ()))
    if _types(a) | _types(b) != {"object"}:
        return False
    inner = [(x.get("properties", {}), name) for name in shared for x in (a, b)]
    return any(
        _apart(a["properties"][name], b["properties"][name], resolve, depth - 1)
        for name in shared
        if all(name in properties for properties, _ in inner)
    )


def _types(schema: dict[str, Any]) -> set[str]:
    named = schema.get("type")
    if named is None:
        constants = _constants(schema)
        return set(TYPES) if constants is None else {kind for value in constants for kind in types_of(value)}
    types = set(named) if isinstance(named, list) else {named}
    return types | {"integer"} if "number" in types else types


def _constants(schema: dict[str, Any]) -> list[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")
