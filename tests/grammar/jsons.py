"""A second opinion on JSON schemas: a checker that shares no code with the grammar."""

from __future__ import annotations

from datetime import date, datetime, time
from math import inf
from typing import Any
from uuid import UUID

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "number": (int, float),
    "null": (type(None),),
}
FORMATS = {
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "date-time": datetime.fromisoformat,
    "uuid": UUID,
}


def valid(value: Any, schema: Any, root: Any) -> bool:
    if schema is True:
        return True
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].split("/")[1:]:
            target = target[part.replace("~1", "/").replace("~0", "~")]
        return valid(value, target, root)
    matches = {
        key: sum(valid(value, s, root) for s in schema[key]) for key in ("anyOf", "oneOf", "allOf") if key in schema
    }
    return (
        matches.get("anyOf", 1) >= 1
        and matches.get("oneOf", 1) == 1
        and matches.get("allOf", 0) == len(schema.get("allOf", ()))
        and any(_same(value, option) for option in schema.get("enum", [value]))
        and _same(value, schema.get("const", value))
        and _typed(value, schema)
        and _inside(value, schema, root)
    )


def _same(a: Any, b: Any) -> bool:
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _typed(value: Any, schema: Any) -> bool:
    named = schema.get("type")
    return named is None or any(_is(value, kind) for kind in (named if isinstance(named, list) else [named]))


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return kind != "boolean" and isinstance(value, TYPES[kind])


def _formatted(text: str, name: str | None) -> bool:
    try:
        return name is None or bool(FORMATS[name](text))
    except ValueError:
        return False


def _inside(value: Any, schema: Any, root: Any) -> bool:
    match value:
        case bool() | None:
            return True
        case str():
            size = schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value))
            return size and _formatted(value, schema.get("format"))
        case int() | float():
            return schema.get("minimum", -inf) <= value <= schema.get("maximum", inf) and schema.get(
                "exclusiveMinimum", -inf
            ) < value < schema.get("exclusiveMaximum", inf)
        case list():
            first, rest = schema.get("prefixItems", []), schema.get("items", True)
            return (
                schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value))
                and all(valid(v, s, root) for v, s in zip(value, first, strict=False))
                and all(rest is not False and valid(v, rest, root) for v in value[len(first) :])
            )
    properties, extra = schema.get("properties", {}), schema.get("additionalProperties", True)
    return all(name in value for name in schema.get("required", ())) and all(
        valid(v, properties[k], root) if k in properties else extra is not False and valid(v, extra, root)
        for k, v in value.items()
    )
