"""GBNF, llama.cpp's grammar notation: from text to rules. Every refusal names the line.

The language is llama.cpp's, but for references to single tokens (`<think>`), and with a rule defined twice, an
impossible repetition or an empty class refused instead of guessed at. Knows nothing of tokens or automata.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from localspec.grammar.characters import LAST, GrammarError, Range, characters, complement, spelt

MOST_REPEATS = 2000
_DEEPEST = 100  # parentheses inside parentheses


@dataclass(frozen=True, slots=True)
class Literal:
    text: str


@dataclass(frozen=True, slots=True)
class Class:
    """One character out of these inclusive ranges of code points."""

    ranges: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Reference:
    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    item: Expression
    least: int
    most: int | None


Expression: TypeAlias = Literal | Class | Reference | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    line: int
    expression: Expression


ANY = Class(((1, LAST),))

_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\#[^\r\n]*)
      | (?P<newline>\r\n|\r|\n)
      | (?P<define>::=)
      | (?P<name>[A-Za-z0-9-]+)
      | (?P<literal>"(?:[^"\\]|\\.)*")
      | (?P<class>\[(?:[^\]\\]|\\.)*\])
      | (?P<repeat>[*+?]|\{[^{}\r\n]*\})
      | (?P<mark>[|().])
    """,
    re.VERBOSE | re.DOTALL,
)
_UNKNOWN = {
    '"': "this text has no closing quote.",
    "[": "this character class has no closing bracket.",
    "{": "this repetition has no closing brace.",
    "<": "references to single tokens are not supported.",
    "!": "references to single tokens are not supported.",
}


@dataclass(frozen=True, slots=True)
class _Word:
    kind: str
    text: str
    line: int


def parse(text: str) -> dict[str, Rule]:
    """The rules by name; `root` is among them. Raises GrammarError."""
    return _Parser(text).rules()


def _words(text: str) -> Iterator[_Word]:
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            start = text[at]
            raise GrammarError(line, _UNKNOWN.get(start, f"{start!r} has no meaning here."))
        kind = match.lastgroup or ""
        if kind != "space":
            yield _Word(kind, match[0], line)
        line += len(re.findall(r"\r\n|\r|\n", match[0]))
        at = match.end()
    yield _Word("end", "", line)


class _Parser:
    """Recursive descent. Inside parentheses, and after `::=` and `|`, a rule goes on over line ends."""

    def __init__(self, text: str) -> None:
        self._words = list(_words(text))
        self._at = 0
        self._depth = 0

    def rules(self) -> dict[str, Rule]:
        rules: dict[str, Rule] = {}
        self._skip_lines()
        while self._next.kind != "end":
            name = self._take("name", "a rule must begin with its name.")
            self._take("define", f"::= must follow the name {name.text!r}.")
            self._skip_lines()
            if name.text in rules:
                raise GrammarError(name.line, f"the rule {name.text!r} is defined twice.")
            rules[name.text] = Rule(name.text, name.line, self._choice())
            if self._next.kind != "end":
                self._take("newline", f"{self._next.text!r} has no meaning here.")
            self._skip_lines()
        if "root" not in rules:
            raise GrammarError(self._next.line, "there is no rule named 'root', where every grammar begins.")
        return rules

    @property
    def _next(self) -> _Word:
        return self._words[self._at]

    def _take(self, kind: str, otherwise: str) -> _Word:
        word = self._next
        if word.kind != kind:
            raise GrammarError(word.line, otherwise)
        self._at += 1
        return word

    def _accept(self, text: str) -> bool:
        found = self._next.text == text and self._next.kind == "mark"
        self._at += found
        return found

    def _skip_lines(self) -> None:
        while self._next.kind == "newline":
            self._at += 1

    def _choice(self) -> Expression:
        options = [self._sequence()]
        while self._accept("|"):
            self._skip_lines()
            options.append(self._sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def _sequence(self) -> Expression:
        items: list[Expression] = []
        while True:
            if self._depth:
                self._skip_lines()
            word = self._next
            if word.kind == "repeat":
                if not items:
                    raise GrammarError(word.line, f"there is nothing before {word.text} to repeat.")
                self._at += 1
                items[-1] = _repeat(items[-1], word)
            elif (item := self._item()) is not None:
                items.append(item)
            else:
                return items[0] if len(items) == 1 else Sequence(tuple(items))

    def _item(self) -> Expression | None:
        word = self._next
        if word.kind in _ATOMS:
            self._at += 1
            return _ATOMS[word.kind](word)
        if self._accept("."):
            return ANY
        if not self._accept("("):
            return None
        self._depth += 1
        if self._depth > _DEEPEST:
            raise GrammarError(word.line, f"parentheses are nested more than {_DEEPEST} deep.")
        inner = self._choice()
        if not self._accept(")"):
            raise GrammarError(word.line, "this parenthesis is never closed.")
        self._depth -= 1
        return inner


def _literal(word: _Word) -> Literal:
    return Literal("".join(characters(word.text[1:-1], word.line)))


def _class(word: _Word) -> Class:
    body = word.text[1:-1]
    negated = body.startswith("^")
    parts = list(spelt(body[negated:], word.line))
    ranges: list[Range] = []
    while parts:
        low = high = parts.pop(0)[0]
        # A dash between two characters makes a range; at either end, or with a backslash, it is a dash.
        if len(parts) > 1 and parts[0] == ("-", False):
            high = parts[1][0]
            del parts[:2]
        if low > high:
            raise GrammarError(word.line, f"the range {low}-{high} runs backwards.")
        ranges.append((ord(low), ord(high)))
    if negated:
        ranges = complement(ranges)
    if not ranges:
        raise GrammarError(word.line, "this character class matches nothing.")
    return Class(tuple(ranges))


def _reference(word: _Word) -> Reference:
    return Reference(word.text, word.line)


_ATOMS: dict[str, Callable[[_Word], Expression]] = {"literal": _literal, "class": _class, "name": _reference}


def _repeat(item: Expression, word: _Word) -> Repeat:
    if word.text in "*+?":
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[word.text]
        return Repeat(item, least, most)
    match = re.fullmatch(r"\{\s*(\d+)\s*(,\s*(\d*)\s*)?\}", word.text)
    if match is None:
        raise GrammarError(word.line, f"{word.text} is no repetition: write {{3}}, {{3,}} or {{3,5}}.")
    least = int(match[1])
    most = least if match[2] is None else int(match[3]) if match[3] else None
    if most is not None and most < least:
        raise GrammarError(word.line, f"{word.text} repeats at most {most} and at least {least} times.")
    if max(least, most or 0) > MOST_REPEATS:
        raise GrammarError(word.line, f"{word.text} repeats more than {MOST_REPEATS} times.")
    return Repeat(item, least, most)
