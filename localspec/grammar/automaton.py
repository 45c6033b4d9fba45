"""A grammar as a machine over bytes: a recursive transition network, made deterministic while it is used.

A state is the set of places in the grammar where a text may stand, each with its stack of rules to return to.
States are never changed: to try a draft and take it back is to keep the old one. Knows nothing of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from localspec.errors import ModelError, UsageError
from localspec.grammar.characters import byte_ranges
from localspec.grammar.checks import check
from localspec.grammar.gbnf import Choice, Class, Expression, Literal, Reference, Repeat, Sequence, parse

_LARGEST = 200_000  # nodes: repetitions unfold
_AMBIGUOUS = 20_000  # places where one text may stand
_REMEMBERED = 50_000  # states

Place: TypeAlias = tuple[int, int]  # a node, and the number of its stack
_NO_STACK = 0


@dataclass(frozen=True, slots=True)
class Bytes:
    """Goes on to `next` with a byte whose bit is set in `mask`."""

    mask: int
    next: int


@dataclass(slots=True)
class Fork:
    targets: tuple[int, ...]


@dataclass(slots=True)
class Call:
    rule: int
    next: int


Node: TypeAlias = Bytes | Fork | Call | None  # None: the end of a rule
END = 0


class State:
    """`ends`: the text may end here. `after(byte)` is None where that byte is not allowed."""

    __slots__ = ("_grammar", "_moves", "_places", "ends")

    def __init__(self, grammar: Grammar, places: frozenset[Place], ends: bool) -> None:
        self._grammar, self._places, self.ends = grammar, places, ends
        self._moves: dict[int, State | None] = {}

    def after(self, byte: int) -> State | None:
        try:
            return self._moves[byte]
        except KeyError:
            state = self._moves[byte] = self._grammar.move(self._places, byte)
            return state

    def after_all(self, data: bytes) -> State | None:
        state = self
        for byte in data:
            if (moved := state.after(byte)) is None:
                return None
            state = moved
        return state


class Grammar:
    """The machine for a text in GBNF. Raises GrammarError for a text that can't be used."""

    def __init__(self, text: str) -> None:
        rules = parse(text)
        check(rules)
        self._nodes: list[Node] = [None]
        self._classes: dict[Class, int] = {}
        self._states: dict[tuple[frozenset[Place], bool], State] = {}
        # A stack is a number that stands for (node to return to, stack below): equal stacks have equal numbers.
        self._stacks: dict[Place, int] = {}
        self._tops: list[Place] = [(END, _NO_STACK)]
        # Rules call each other in any order: every one gets its entry before any is built.
        self._entries = {name: self._add(Fork(())) for name in rules}
        for name, rule in rules.items():
            self._nodes[self._entries[name]] = Fork((self._build(rule.expression, END),))
        start = self._settle([(self._entries["root"], _NO_STACK)])
        assert start is not None
        self.start: State = start

    def move(self, places: frozenset[Place], byte: int) -> State | None:
        moved = []
        for index, stack in places:
            node = self._nodes[index]
            assert isinstance(node, Bytes)
            if node.mask >> byte & 1:
                moved.append((node.next, stack))
        return self._settle(moved)

    def _settle(self, pending: list[Place]) -> State | None:
        """Follow everything that needs no byte."""
        seen: set[Place] = set()
        places, ends = [], False
        while pending:
            place = pending.pop()
            if place in seen:
                continue
            seen.add(place)
            index, stack = place
            match self._nodes[index]:
                case Bytes():
                    places.append(place)
                case Fork(targets):
                    pending += [(target, stack) for target in targets]
                case Call(rule, next):
                    # A call at the end of a rule needs no return: a list of any length keeps a flat stack.
                    pending.append((rule, stack if next == END else self._push(next, stack)))
                case None if stack == _NO_STACK:
                    ends = True
                case None:
                    pending.append(self._tops[stack])
        if len(seen) > _AMBIGUOUS:
            raise ModelError("The grammar has too many readings of this text.", "Make its rules less ambiguous.")
        return self._state(frozenset(places), ends) if seen else None

    def _push(self, next: int, stack: int) -> int:
        number = self._stacks.setdefault((next, stack), len(self._tops))
        if number == len(self._tops):
            self._tops.append((next, stack))
        return number

    def _state(self, places: frozenset[Place], ends: bool) -> State:
        if len(self._states) > _REMEMBERED:
            self._states.clear()
        return self._states.setdefault((places, ends), State(self, places, ends))

    def _build(self, expression: Expression, next: int) -> int:
        """The entry of nodes that match `expression` and go on to `next`."""
        match expression:
            case Literal(text):
                for byte in reversed(text.encode()):
                    next = self._add(Bytes(1 << byte, next))
                return next
            case Class():
                return self._add(Call(self._class(expression), next))
            case Reference(name):
                return self._add(Call(self._entries[name], next))
            case Sequence(items):
                for item in reversed(items):
                    next = self._build(item, next)
                return next
            case Choice(options):
                return self._add(Fork(tuple(self._build(option, next) for option in options)))
            case Repeat():
                return self._repeat(expression, next)

    def _repeat(self, repeat: Repeat, next: int) -> int:
        # Built once and called from every repetition.
        item = self._build(repeat.item, END)
        exit = next
        if repeat.most is None:
            loop = self._add(Fork(()))
            self._nodes[loop] = Fork((self._add(Call(item, loop)), exit))
            next = loop
        for _ in range((repeat.most or repeat.least) - repeat.least):
            next = self._add(Fork((self._add(Call(item, next)), exit)))
        for _ in range(repeat.least):
            next = self._add(Call(item, next))
        return next

    def _class(self, wanted: Class) -> int:
        if wanted not in self._classes:
            ascii, entries = 0, []
            for low, high in wanted.ranges:
                for first, *rest in byte_ranges(low, high):
                    next = END
                    for span in reversed(rest):
                        next = self._add(Bytes(_mask(*span), next))
                    if rest:
                        entries.append(self._add(Bytes(_mask(*first), next)))
                    else:
                        ascii |= _mask(*first)
            if ascii:
                entries.append(self._add(Bytes(ascii, END)))
            self._classes[wanted] = self._add(Fork(tuple(entries)))
        return self._classes[wanted]

    def _add(self, node: Node) -> int:
        if len(self._nodes) >= _LARGEST:
            raise UsageError("The grammar is too large.", "Its repetitions unfold to too many steps: lower them.")
        self._nodes.append(node)
        return len(self._nodes) - 1


def _mask(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low)
