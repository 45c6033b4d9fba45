"""Schemas: every text of the grammar satisfies the schema, and what is not understood is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from localspec.grammar.automaton import END, Bytes, Call, Fork, Grammar
from localspec.grammar.schema import SchemaError, to_gbnf
from localspec.grammar.values import whole_numbers
from tests.grammar.jsons import valid
from tests.grammar.texts import follows

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 5},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2},
        "on": {"type": ["boolean", "null"]},
    },
    "required": ["age"],
}
TREE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "value": {"type": "number"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            },
            "required": ["value"],
        }
    },
}
SHAPE = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"kind": {"const": "dot"}, "x": {"type": "integer"}},
            "required": ["kind"],
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "line"}, "ends": {"prefixItems": [{"type": "integer"}] * 2}},
            "required": ["kind", "ends"],
        },
    ]
}
SCHEMAS: dict[str, Any] = {
    "person": PERSON,
    "tree": TREE,
    "shape": SHAPE,
    "anything": {},
    "true": True,
    "map": {"type": "object", "additionalProperties": {"type": "integer"}},
    "required elsewhere": {"type": "object", "required": ["a", "b"], "properties": {"b": {"type": "null"}}},
    "nothing": {"type": "object", "properties": {}, "additionalProperties": False},
    "only optional": {"properties": {"a": {"type": "null"}, "b": {"type": "null"}, "c": {"type": "null"}}},
    "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "boolean"}], "items": False},
    "empty list": {"type": "array", "items": False},
    "some": {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    "quotes": {"enum": ['say "hi"\\', "tab\t\n", "é", 1.5, None, {"a": [1]}]},
    "typed constant": {"enum": [1, "one", True], "type": ["string", "integer"]},
    "any of": {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
    "all of one": {"allOf": [{"$ref": "#/definitions/x"}], "definitions": {"x": {"type": "null"}}, "title": "X"},
    "pointer": {"$ref": "#/$defs/a~1b~0c", "$defs": {"a/b~c": {"type": "null"}}},
    **{name: {"type": "string", "format": name} for name in ("date", "time", "date-time", "uuid")},
    "bounds": {"type": "integer", "exclusiveMinimum": -5, "exclusiveMaximum": 17},
    "far bounds": {"type": "integer", "minimum": -(2**63), "maximum": 2**63},
    "other types' keywords": {"type": "null", "minLength": 3, "items": {"type": "null"}},
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_text_of_the_grammar_satisfies_the_schema(name: str) -> None:
    grammar = Grammar(to_gbnf(json.dumps(SCHEMAS[name])))
    rng = random.Random(1)
    for _ in range(300):
        text = written(grammar, rng)
        assert valid(json.loads(text), SCHEMAS[name], SCHEMAS[name]), text


def written(grammar: Grammar, rng: random.Random) -> str:
    """A random walk through the automaton; the longer it gets, the more it hurries to the end."""
    data, stack, node = bytearray(), [], grammar._entries["root"]
    while True:
        match grammar._nodes[node]:
            case Bytes(mask, following):
                data.append(rng.choice([byte for byte in range(256) if mask >> byte & 1]))
                node = following
            case Call(rule, following):
                stack.append(following)
                node = rule
            case Fork(targets):
                node = targets[-1] if len(data) + len(stack) > 150 else rng.choice(targets)
            case None if stack:
                node = stack.pop()
            case None:
                assert node == END
                return data.decode()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        (
            "person",
            ['{"age":1}', '{ "name": "Al", "age": 3, "tags": ["a", "b"], "on": null }', '{\n\t"age": 120\n}'],
        ),
        ("tree", ['{"value": -1.5e3, "children": [{"value": 0, "children": []}]}']),
        ("anything", ['"\\u00e9\\n"', "[1, {}, null]", "-0.25", '{"a": {"b": [true]}}']),
        ("only optional", ["{}", '{"a":null}', '{"c":null}', '{"a":null,"c":null}', '{ "b": null, "c": null }']),
        ("date-time", ['"2024-02-28T23:59:59Z"', '"1999-12-31T00:00:00.5+01:00"']),
    ],
)
def test_ordinary_texts_can_be_written(name: str, texts: list[str]) -> None:
    grammar = to_gbnf(json.dumps(SCHEMAS[name]))
    assert [text for text in texts if not follows(grammar, text)] == []


@pytest.mark.parametrize(
    ("schema", "where", "words"),
    [
        ({"type": "string", "pattern": "a+"}, "#:", "'pattern'"),
        ({"properties": {"a": {"items": {"multipleOf": 2}}}}, "#/properties/a/items:", "'multipleOf'"),
        ({"type": "number", "minimum": 0}, "#:", "integers only"),
        ({"type": "text"}, "#/type:", '"text"'),
        ({"type": "string", "format": "email"}, "#:", '"email"'),
        ({"type": "string", "format": "date", "maxLength": 3}, "#:", "'format'"),
        ({"type": "string", "minLength": 3, "maxLength": 2}, "#/maxLength:", "minLength"),
        ({"type": "string", "minLength": 2001}, "#/minLength:", "2000"),
        ({"type": "string", "minLength": "3"}, "#/minLength:", "whole number"),
        ({"type": "integer", "minimum": 3, "maximum": 2}, "#:", "no integer"),
        ({"type": "integer", "minimum": 0.5}, "#/minimum:", "whole number"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "#/oneOf:", "overlap"),
        ({"oneOf": [{"enum": ["a", "b"]}, {"const": "b"}]}, "#/oneOf:", "overlap"),
        ({"oneOf": [SHAPE["oneOf"][0], SHAPE["oneOf"][0]]}, "#/oneOf:", "overlap"),
        ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, "#/oneOf:", "overlap"),
        ({"anyOf": []}, "#/anyOf:", "no alternatives"),
        ({"anyOf": [{}], "type": "string"}, "#:", "'anyOf' together with 'type'"),
        ({"allOf": [{}, {}]}, "#/allOf:", "one element"),
        ({"enum": ["a"], "type": "integer"}, "#/enum:", "type"),
        ({"enum": []}, "#/enum:", "value"),
        ({"$ref": "#/$defs/nope"}, "#/$ref:", "not there"),
        ({"$ref": "https://example.org/x"}, "#/$ref:", "inside"),
        ({"$ref": "#"}, "#:", "never come to an end"),
        ({"properties": {"a": {"$ref": "#"}}, "required": ["a"]}, "#:", "never come to an end"),
        ({"properties": {}, "required": ["a"], "additionalProperties": False}, "#:", "'a'"),
        ({"prefixItems": [{}, {}], "minItems": 3}, "#:", "minItems"),
        ({"properties": ["a"]}, "#/properties:", "can't be"),
        ({"properties": {"a": False}}, "#/properties/a:", "an object or true"),
        (3, "#:", "an object or true"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_place(schema: Any, where: str, words: str) -> None:
    with pytest.raises(SchemaError) as refused:
        to_gbnf(json.dumps(schema))
    assert refused.value.message.startswith(where)
    assert words in refused.value.message
    assert refused.value.hint


def test_what_no_json_reader_takes_can_not_be_written() -> None:
    text = to_gbnf('{"type": "string"}')
    assert follows(text, r'"\n \u00e9 é \" \\"')
    for wrong in (r'"\x"', r'"\ud800"', r'"\uDFFF"', '"a\nb"', '"a\x01"', '"', "'a'", '"a" "b"'):
        assert not follows(text, wrong), wrong
    for wrong in ("01", "1.", ".5", "+1", "1e999", "NaN", "--1"):
        assert not follows(to_gbnf('{"type": "number"}'), wrong), wrong


def test_broken_json_is_refused_with_its_line() -> None:
    with pytest.raises(SchemaError, match="line 3: this is no JSON"):
        to_gbnf('{\n"type":\n}')
    with pytest.raises(SchemaError, match="nested"):
        to_gbnf('{"items":' * 5000 + "{}" + "}" * 5000)


def test_bounds_of_whole_numbers_are_exact() -> None:
    rng = random.Random(2)
    for _ in range(300):
        size = 10 ** rng.randint(1, 5)
        low, high = sorted((rng.randint(-size, size), rng.randint(-size, size)))
        grammar = Grammar("root ::= " + whole_numbers(low, high))
        for number in (
            low - 1,
            low,
            high,
            high + 1,
            0,
            -low,
            *(rng.randint(-2 * size, 2 * size) for _ in range(9)),
        ):
            state = grammar.start.after_all(str(number).encode())
            assert (state is not None and state.ends) == (low <= number <= high), (low, high, number)


def test_the_checker_of_these_tests_sees_what_is_wrong() -> None:
    assert not valid({"age": 121}, PERSON, PERSON)
    assert not valid({"name": "Al"}, PERSON, PERSON)
    assert not valid({"value": 1, "children": [{}]}, TREE, TREE)
    assert not valid({"kind": "line"}, SHAPE, SHAPE)
    assert not valid("2024-02-30", SCHEMAS["date"], SCHEMAS["date"])
