"""The leaves of a JSON grammar: rules for simple values, and the digits of bounded whole numbers, as GBNF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_DIGITS = 15  # as many as survive a double
LARGEST = 10**_DIGITS - 1
# Between two tokens of JSON: room for people's layout, but no room to wander off in.
_SPACE = r'( " " | "\n" [ \t]{0,40} )?'
_DATE = (
    '[12] [0-9]{3} "-" ( ( "0" [13578] | "1" [02] ) "-" ( "0" [1-9] | [12] [0-9] | "3" [01] )'
    ' | ( "0" [469] | "11" ) "-" ( "0" [1-9] | [12] [0-9] | "30" )'
    ' | "02-" ( "0" [1-9] | "1" [0-9] | "2" [0-8] ) )'
)
_TIME = (
    '( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{1,6} )? '
    '( "Z" | [+-] ( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] )'
)
RULES = {
    "space": _SPACE,
    "value": "object | array | string | number | boolean | null",
    "object": '"{" space ( pair ( "," space pair )* space )? "}"',
    "pair": 'string ":" space value',
    "array": '"[" space ( value ( "," space value )* space )? "]"',
    "string": r'"\"" char* "\""',
    "char": r'[^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" ( [0-9a-cA-CefEF] hex{3} | [dD] [0-7] hex{2} ) )',
    "hex": "[0-9a-fA-F]",
    "integer": '"-"? whole',
    "whole": f'"0" | [1-9] [0-9]{{0,{_DIGITS - 1}}}',
    "number": f'"-"? whole ( "." [0-9]{{1,{_DIGITS}}} )? ( [eE] [+-]? [0-9]{{1,2}} )?',
    "boolean": '"true" | "false"',
    "null": '"null"',
    "date": _DATE,
    "time": _TIME,
    "date-time": 'date "T" time',
    "uuid": 'hex{8} "-" hex{4} "-" hex{4} "-" hex{4} "-" hex{12}',
}
FORMATS = ("date", "time", "date-time", "uuid")


def literal(text: str) -> str:
    """`text` itself, quoted for GBNF."""
    return '"' + "".join(_ESCAPED.get(character, character) for character in text) + '"'


_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def choice(options: Iterable[str]) -> str:
    """One of these, safe to stand in a sequence."""
    texts = list(options)
    return texts[0] if len(texts) == 1 else f"( {' | '.join(texts)} )"


def listed(item: str, least: int, most: int | None) -> str:
    """`least` to `most` items with commas between them."""
    if most == 0:
        return ""
    again = f"{{{max(0, least - 1)},{'' if most is None else most - 1}}}"
    items = f'{item} ( "," space {item} ){again} space'
    return items if least else f"( {items} )?"


def whole_numbers(low: int, high: int) -> str:
    """The whole numbers from `low` to `high`, both within `LARGEST`."""
    options: list[str] = []
    if low < 0:
        options += [f'"-" {digits}' for digits in _naturals(max(1, -high), -low)]
    if high >= 0:
        options += _naturals(max(0, low), high)
    return choice(options)


def _naturals(low: int, high: int) -> Iterator[str]:
    for size in range(len(str(low)), len(str(high)) + 1):
        first = max(low, 10 ** (size - 1) if size > 1 else 0)
        yield from _digits(str(first), str(min(high, 10**size - 1)))


def _digits(low: str, high: str) -> Iterator[str]:
    """The numbers between two of equal length, as patterns of digits."""
    size = len(low)
    if low == "0" * size and high == "9" * size:
        yield f"[0-9]{{{size}}}"
    elif size == 1:
        yield f"[{low}-{high}]"
    elif low[0] == high[0]:
        for rest in _digits(low[1:], high[1:]):
            yield f'"{low[0]}" {rest}'
    else:
        # 27..64 is 27..29, 30..59 and 60..64; a ragged end gets its own first digit.
        first, last = int(low[0]), int(high[0])
        if low[1:].strip("0"):
            yield from _digits(low, f"{first}{'9' * (size - 1)}")
            first += 1
        tail = list(_digits(f"{last}{'0' * (size - 1)}", high)) if high[1:].strip("9") else []
        last -= bool(tail)
        if first <= last:
            yield f"[{first}-{last}] [0-9]{{{size - 1}}}"
        yield from tail
