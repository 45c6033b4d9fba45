"""A conversation as a tree. A message that is edited or answered again gets a sibling; nothing is overwritten,
and one path through the tree is active. Knows no clock, no screen, no engine and no file.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from localspec.chat.answer import Answer
from localspec.chat.message import Message
from localspec.chat.text import one_line
from localspec.spec.settings import Sampling

TITLE_WIDTH = 60


@dataclass(frozen=True, slots=True)
class Asked:
    """The settings that an answer was asked for with."""

    sampling: Sampling
    draft_tokens: int | None  # None: automatic
    verifier: str = "block"
    model: str = ""  # its title


@dataclass(slots=True, eq=False)
class Node:
    """One message, or one answer with the settings it was asked for. The root has neither."""

    id: int
    parent: Node | None = None
    message: Message | None = None
    answer: Answer | None = None
    asked: Asked | None = None
    children: list[Node] = field(default_factory=list)
    chosen: Node | None = None  # the child on the active path

    @property
    def siblings(self) -> list[Node]:
        return self.parent.children if self.parent else [self]

    @property
    def place(self) -> tuple[int, int]:
        """(2, 3): the second of three siblings."""
        return self.siblings.index(self) + 1, len(self.siblings)


class Session:
    """`waiting` are prompts that were sent and not asked yet; `dropped` the nodes that the model no longer reads."""

    def __init__(self, system: str | None = None, *, sampling: Sampling | None = None, model: str = "") -> None:
        self.id = secrets.token_hex(6)
        self.named: str | None = None
        self.system = system
        self.sampling = sampling
        self.model = model
        self.waiting: tuple[str, ...] = ()
        self.dropped: frozenset[int] = frozenset()
        self.root = Node(0)
        self._made = 0

    @property
    def title(self) -> str:
        """The one it was given, else the beginning of its first message; empty before that."""
        if self.named:
            return self.named
        first = self.root.children[0].message if self.root.children else None
        text = first.text if first else next(iter(self.waiting), "")
        return one_line(text[: 4 * TITLE_WIDTH], TITLE_WIDTH)

    @property
    def empty(self) -> bool:
        """Nothing was said in it yet."""
        return not self.root.children and not self.waiting

    @property
    def path(self) -> tuple[Node, ...]:
        """The active path, first message first."""
        nodes = []
        node = self.root.chosen
        while node:
            nodes.append(node)
            node = node.chosen
        return tuple(nodes)

    @property
    def tip(self) -> Node:
        return self.path[-1] if self.root.chosen else self.root

    def say(self, text: str, *, instead_of: Node | None = None) -> Node:
        """A message of the user's at the end of the path, or as a sibling of an earlier one."""
        parent = instead_of.parent if instead_of else self.tip
        assert parent is not None, "the root is not a message"
        return self._append(parent, Node(self._next_id(), parent, message=Message("user", text)))

    def answer(self, question: Node, answer: Answer, asked: Asked) -> Node:
        """An answer to `question`: the first one, or a sibling of those that are there."""
        return self._append(question, Node(self._next_id(), question, answer=answer, asked=asked))

    def step(self, node: Node, by: int) -> Node:
        """Lead the active path through the sibling `by` places further, stopping at either end."""
        place, count = node.place
        sibling = node.siblings[min(max(place - 1 + by, 0), count - 1)]
        if node.parent:
            node.parent.chosen = sibling
        return sibling

    def remove(self, node: Node) -> Node | None:
        """Take back a node to which nothing came; the path leads through its former neighbour, if any."""
        parent = node.parent
        assert parent is not None, "the root stays"
        parent.children.remove(node)
        parent.chosen = parent.children[-1] if parent.children else None
        return parent.chosen

    def messages(self, until: Node | None = None) -> tuple[Message, ...]:
        """What the model reads: the system prompt and the path, up to and including `until`."""
        read = [Message("system", self.system)] if self.system else []
        for node in self.path:
            if node.id in self.dropped:
                continue
            if node.message:
                read.append(node.message)
            elif node.answer:
                read.append(node.answer.message())
            if node is until:
                break
        return tuple(read)

    def answers(self) -> list[Node]:
        """Every answer of the tree in the order of asking, whether or not it lies on the active path."""
        return [node for node in self.nodes() if node.answer]

    def nodes(self) -> list[Node]:
        """Every message and answer of the tree, in the order of saying."""
        return sorted((node for node in _walk(self.root) if node.parent), key=lambda node: node.id)

    def put(self, node: Node) -> None:
        """A node that was made before: read from a file, its parent first."""
        assert node.parent is not None, "the root is there"
        node.parent.children.append(node)
        self._made = max(self._made, node.id)

    def _next_id(self) -> int:
        self._made += 1
        return self._made

    @staticmethod
    def _append(parent: Node, node: Node) -> Node:
        parent.children.append(node)
        parent.chosen = node
        return node


def _walk(node: Node) -> Iterator[Node]:
    waiting = [node]
    while waiting:
        here = waiting.pop()
        yield here
        waiting.extend(here.children)
