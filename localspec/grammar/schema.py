"""A JSON schema as a grammar: every text of the grammar is JSON that the schema accepts.

The reverse is not promised: properties are written in the order of the schema, and none that it doesn't name. A
keyword that is not understood is refused, since an answer that breaks it would look like one that keeps it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

from localspec.errors import UsageError
from localspec.grammar.characters import GrammarError
from localspec.grammar.checks import check
from localspec.grammar.gbnf import MOST_REPEATS, parse
from localspec.grammar.overlap import TYPES, disjoint, types_of
from localspec.grammar.values import FORMATS, LARGEST, RULES, choice, listed, literal, whole_numbers

_NOTES = {"$schema", "$id", "$anchor", "$comment", "$defs", "definitions", "title", "description", "default"}
_NOTES |= {"examples", "deprecated", "readOnly", "writeOnly"}
# A keyword says nothing about values of other types, so next to those it is no obstacle.
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_KEYWORDS = {
    "object": ("properties", "required", "additionalProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "format"),
    "number": _BOUNDS,
}
_ALONE = ("$ref", "anyOf", "oneOf", "allOf", "enum", "const")  # each says all there is to say about a value
_SHAPES = {"properties": dict, "required": list, "prefixItems": list, "$ref": str, "enum": list}
_SHAPES |= {"anyOf": list, "oneOf": list, "allOf": list}
_KNOWN = _NOTES | {"type", *_ALONE} | {key for keys in _KEYWORDS.values() for key in keys}

Schema: TypeAlias = Mapping[str, Any]


class SchemaError(UsageError):
    """`where` is the path to the place inside the schema, or a line of its text."""

    def __init__(self, where: str, message: str, hint: str = "Take it out, or say it in another way.") -> None:
        super().__init__(f"{where}: {message}", hint)


def to_gbnf(text: str) -> str:
    """The grammar of a schema's text. Raises SchemaError."""
    try:
        grammar = _Writer(json.loads(text)).grammar()
    except json.JSONDecodeError as error:
        raise SchemaError(f"line {error.lineno}", f"this is no JSON ({error.msg}).", "Correct it.") from None
    except RecursionError:
        raise SchemaError("#", "it is nested too deeply.") from None
    try:
        check(parse(grammar))
    except GrammarError:
        raise SchemaError("#", "no value can satisfy it: its references never come to an end.") from None
    return grammar


class _Writer:
    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._references = {"#": "root"}
        self._rules: dict[str, str] = {}

    def grammar(self) -> str:
        self._rule("root", self._schema, "#")
        return "".join(f"{name} ::= {rule}\n" for name, rule in (self._rules | RULES).items())

    def _rule(self, name: str, schema: Any, where: str) -> str:
        self._rules[name] = ""  # holds its place while the rules inside it are written
        self._rules[name] = self._value(schema, where)
        return name

    def _new_rule(self, schema: Any, where: str) -> str:
        return self._rule(f"v{len(self._rules)}", schema, where)

    def _value(self, schema: Any, where: str) -> str:
        if schema is True or schema == {}:
            return "value"
        if not isinstance(schema, dict):
            raise SchemaError(where, f"a schema is an object or true, not {json.dumps(schema)}.")
        if unknown := sorted(schema.keys() - _KNOWN):
            raise SchemaError(where, f"the keyword {unknown[0]!r} is not supported.")
        for key, shape in _SHAPES.items():
            if key in schema and not isinstance(schema[key], shape):
                raise SchemaError(f"{where}/{key}", f"it can't be {json.dumps(schema[key])}.", "Correct it.")
        alone = next((key for key in _ALONE if key in schema), None)
        if alone is None:
            return choice(self._typed(kind, schema, where) for kind in self._types(schema, where))
        beside = schema.keys() - _NOTES - {alone} - ({"type"} if alone in ("enum", "const") else set())
        if beside:
            raise SchemaError(where, f"{alone!r} together with {min(beside)!r} is not supported.")
        return self._alone(alone, schema, f"{where}/{alone}")

    def _alone(self, key: str, schema: Schema, where: str) -> str:
        if key == "$ref":
            return self._reference(schema[key], where)
        if key in ("enum", "const"):
            return self._constants([schema[key]] if key == "const" else schema[key], schema, where)
        options = schema[key]
        if not options:
            raise SchemaError(where, "it has no alternatives.", "Correct it.")
        if key == "allOf" and len(options) > 1:
            raise SchemaError(where, "it is supported with one element only.")
        if key == "oneOf" and not disjoint(options, self._resolve):
            raise SchemaError(
                where,
                "its alternatives may overlap, so that a value could match two of them.",
                "Use anyOf, or give them different types or a required property with different constants.",
            )
        return choice(self._new_rule(option, f"{where}/{i}") for i, option in enumerate(options))

    def _constants(self, values: list[Any], schema: Schema, where: str) -> str:
        types = self._types(schema, where) if "type" in schema else list(TYPES)
        fitting = [value for value in values if types_of(value) & set(types)]
        if not fitting:
            raise SchemaError(where, "it has no value of the type that is asked for.")
        return choice(literal(json.dumps(value, ensure_ascii=False)) for value in fitting)

    def _reference(self, pointer: str, where: str) -> str:
        target = self._resolve(pointer, where)
        if pointer not in self._references:
            self._references[pointer] = name = f"v{len(self._rules)}"
            self._rule(name, target, pointer)
        return self._references[pointer]

    def _resolve(self, pointer: str, where: str = "#") -> Any:
        if not pointer.startswith("#"):
            raise SchemaError(where, f"only references inside the schema are supported, not {json.dumps(pointer)}.")
        target = self._schema
        for part in pointer[1:].split("/")[1:]:
            key = part.replace("~1", "/").replace("~0", "~")
            try:
                target = target[int(key)] if isinstance(target, list) else target[key]
            except (KeyError, IndexError, ValueError, TypeError):
                raise SchemaError(where, f"it refers to {pointer}, which is not there.", "Correct it.") from None
        return target

    def _types(self, schema: Schema, where: str) -> list[str]:
        """The types that a value may have: those it names, else those that its keywords speak of, else all."""
        named = schema.get("type")
        if named is None:
            return [kind for kind, keys in _KEYWORDS.items() if schema.keys() & set(keys)] or list(TYPES)
        types = named if isinstance(named, list) else [named]
        for kind in types:
            if kind not in TYPES:
                raise SchemaError(f"{where}/type", f"there is no type {json.dumps(kind)}.", "Correct it.")
        return types

    def _typed(self, kind: str, schema: Schema, where: str) -> str:
        match kind:
            case "object":
                return self._object(schema, where)
            case "array":
                return self._array(schema, where)
            case "string":
                return self._string(schema, where)
            case "integer" if schema.keys() & set(_BOUNDS):
                return self._integer(schema, where)
            case "number" if bounds := schema.keys() & set(_BOUNDS):
                raise SchemaError(
                    where, f"{min(bounds)!r} is supported for integers only.", "Use the type integer."
                )
        return kind

    def _object(self, schema: Schema, where: str) -> str:
        extra, required = schema.get("additionalProperties", True), schema.get("required", [])
        properties = dict(schema.get("properties", {}))
        if missing := [name for name in required if name not in properties]:
            if extra is False:
                raise SchemaError(where, f"{missing[0]!r} is required, but no such property is allowed.")
            properties |= dict.fromkeys(missing, extra)
        if not properties:
            if extra in (True, False):
                return "object" if extra else '"{" space "}"'
            item = self._new_rule(extra, f"{where}/additionalProperties")
            pairs = listed(f'string ":" space {item}', 0, None)
            return f'"{{" space {pairs} "}}"'
        named = []
        for name, inner in properties.items():
            rule = self._new_rule(inner, f"{where}/properties/{name}")
            named.append((f'{literal(json.dumps(name, ensure_ascii=False))} ":" space {rule}', name in required))
        return f'"{{" space {self._pairs(named)} "}}"'

    def _pairs(self, pairs: list[tuple[str, bool]]) -> str:
        """Pairs in this order, of which some are required, with commas between those that are written."""
        rest, rests = "", []
        for pair, required in reversed(pairs):
            rests.append(rest)
            name = f"v{len(self._rules)}"
            self._rules[name] = f'"," space {pair} {rest}' if required else f'( "," space {pair} )? {rest}'
            rest = name
        starts = []
        for (pair, required), rest in zip(pairs, reversed(rests), strict=True):
            starts.append(f"{pair} {rest} space")
            if required:
                return choice(starts)
        return f"{choice(starts)}?" if len(starts) > 1 else f"( {starts[0]} )?"

    def _array(self, schema: Schema, where: str) -> str:
        least, most = self._range(schema, "Items", where)
        items = schema.get("items", True)
        fixed = schema.get("prefixItems", items if isinstance(items, list) else None)
        if items is False and fixed is None:
            fixed = []
        if fixed is None:
            return f'"[" space {listed(self._new_rule(items, f"{where}/items"), least, most)} "]"'
        if not least <= len(fixed) <= (len(fixed) if most is None else most):
            raise SchemaError(where, f"it describes {len(fixed)} items, which minItems or maxItems rules out.")
        rules = [self._new_rule(item, f"{where}/prefixItems/{i}") for i, item in enumerate(fixed)]
        inside = ' "," space '.join(rules)
        return f'"[" space {inside} space "]"' if rules else '"[" space "]"'

    def _string(self, schema: Schema, where: str) -> str:
        least, most = self._range(schema, "Length", where)
        if (name := schema.get("format")) is None:
            return rf'"\"" char{{{least},{"" if most is None else most}}} "\""'
        if name not in FORMATS:
            known = ", ".join(FORMATS)
            raise SchemaError(
                where, f"the format {json.dumps(name)} is not supported.", f"Take it out, or use {known}."
            )
        if (least, most) != (0, None):
            raise SchemaError(where, "'format' together with a length is not supported.")
        return rf'"\"" {name} "\""'

    def _range(self, schema: Schema, what: str, where: str) -> tuple[int, int | None]:
        """minItems and maxItems, or minLength and maxLength; a maximum that a grammar can't count to is lowered."""
        least, most = schema.get(f"min{what}", 0), schema.get(f"max{what}")
        for key, value in ((f"min{what}", least), (f"max{what}", most)):
            if value is not None and (type(value) is not int or value < 0):
                raise SchemaError(
                    f"{where}/{key}", f"it must be a whole number, not {json.dumps(value)}.", "Correct it."
                )
        if least > MOST_REPEATS:
            raise SchemaError(f"{where}/min{what}", f"it can be at most {MOST_REPEATS}.")
        if most is not None and most < least:
            raise SchemaError(f"{where}/max{what}", f"it is below min{what}.", "Correct it.")
        return least, None if most is None else min(most, MOST_REPEATS)

    def _integer(self, schema: Schema, where: str) -> str:
        for key in _BOUNDS:
            if key in schema and type(schema[key]) is not int:
                raise SchemaError(f"{where}/{key}", f"it must be a whole number, not {json.dumps(schema[key])}.")
        lows = [schema[key] + step for key, step in (("minimum", 0), ("exclusiveMinimum", 1)) if key in schema]
        highs = [schema[key] - step for key, step in (("maximum", 0), ("exclusiveMaximum", 1)) if key in schema]
        low, high = max(lows, default=-LARGEST), min(highs, default=LARGEST)
        if max(low, -LARGEST) > min(high, LARGEST):
            raise SchemaError(
                where, f"there is no integer of at most 15 digits from {low} to {high}.", "Correct it."
            )
        return whole_numbers(max(low, -LARGEST), min(high, LARGEST))
