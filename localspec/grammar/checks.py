"""What a grammar must not do, found out before anything is generated. Every refusal names the line."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

from localspec.grammar.characters import GrammarError
from localspec.grammar.gbnf import Choice, Class, Expression, Literal, Reference, Repeat, Rule, Sequence

Rules: TypeAlias = Mapping[str, Rule]


def check(rules: Rules) -> None:
    """Raises GrammarError for a rule that is missing, that begins with itself, or that can never end."""
    for reference in (r for rule in rules.values() for r in _references(rule.expression)):
        if reference.name not in rules:
            raise GrammarError(reference.line, f"there is no rule named {reference.name!r}.")
    ending = _closed(rules, _ends)
    if endless := [rule for rule in rules.values() if rule.name not in ending]:
        names = ", ".join(repr(rule.name) for rule in endless)
        raise GrammarError(endless[0].line, f"no text can ever end under: {names}.")
    _refuse_left_recursion(rules)


def _refuse_left_recursion(rules: Rules) -> None:
    """A rule that needs itself before it has matched a character would be entered for ever."""
    empty = _closed(rules, _can_be_empty)
    first = {name: list(_first(rule.expression, empty)) for name, rule in rules.items()}
    try:
        TopologicalSorter({name: [r.name for r in references] for name, references in first.items()}).prepare()
    except CycleError as error:
        cycle = error.args[1]
        lines = [r.line for name in cycle for r in first[name] if r.name in cycle]
        raise GrammarError(
            min(lines), f"the rule {cycle[0]!r} begins with itself; put the repetition behind."
        ) from None


def _references(expression: Expression) -> Iterator[Reference]:
    match expression:
        case Reference():
            yield expression
        case Sequence(parts) | Choice(parts):
            for part in parts:
                yield from _references(part)
        case Repeat(item):
            yield from _references(item)


def _first(expression: Expression, empty: set[str]) -> Iterator[Reference]:
    """The rules that may be entered before any character is matched."""
    match expression:
        case Reference():
            yield expression
        case Choice(options):
            for option in options:
                yield from _first(option, empty)
        case Repeat(item):
            yield from _first(item, empty)
        case Sequence(items):
            for item in items:
                yield from _first(item, empty)
                if not _can_be_empty(item, empty):
                    return


def _closed(rules: Rules, holds: Callable[[Expression, set[str]], bool]) -> set[str]:
    """The rules for which `holds`, given those for which it holds already, until nothing is added."""
    found: set[str] = set()
    while new := {name for name, rule in rules.items() if name not in found and holds(rule.expression, found)}:
        found |= new
    return found


def _can_be_empty(expression: Expression, empty: set[str]) -> bool:
    match expression:
        case Literal(text):
            return not text
        case Class():
            return False
        case Reference(name):
            return name in empty
        case Sequence(items):
            return all(_can_be_empty(item, empty) for item in items)
        case Choice(options):
            return any(_can_be_empty(option, empty) for option in options)
        case Repeat(item, least):
            return least == 0 or _can_be_empty(item, empty)


def _ends(expression: Expression, ending: set[str]) -> bool:
    match expression:
        case Literal() | Class():
            return True
        case Reference(name):
            return name in ending
        case Sequence(items):
            return all(_ends(item, ending) for item in items)
        case Choice(options):
            return any(_ends(option, ending) for option in options)
        case Repeat(item, least):
            return least == 0 or _ends(item, ending)
