"""A conversation as a file for others: Markdown to read, JSON with everything to read back. Knows no store and no
clock. The ending of a file's name says which of the two it gets, and no file is written over."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Any

from localspec.chat.answer import Answer
from localspec.chat.codec import (
    answer_fields,
    asked_of,
    facts,
    piece_to_plain,
    round_of,
    round_to_plain,
    sampling_of,
)
from localspec.chat.figures import footer
from localspec.chat.message import Message, Piece
from localspec.chat.session import Node, Session
from localspec.errors import LocalspecError, UsageError

SCHEMA = "localspec.conversation/1"
ENDINGS = (".md", ".json")


def markdown(session: Session) -> str:
    """The active path. What was said stands as it was said: an answer's own Markdown included."""
    blocks = [f"# {session.title or 'Untitled'}"]
    if session.system:
        blocks.append("\n".join(f"> {line}" for line in session.system.split("\n")))
    for node in session.path:
        if node.message:
            blocks += ["## You", node.message.text]
        elif node.answer:
            model = node.asked.model if node.asked else ""
            blocks += [f"## {model or 'Answer'}", node.answer.text.strip(), f"*{footer(node.answer)}*"]
    return "\n\n".join(blocks) + "\n"


def to_plain(session: Session, *, now: datetime) -> dict[str, Any]:
    """Every branch, with the tokens, rounds and settings of its answers."""
    return {
        "schema": SCHEMA,
        "exported_at": now.isoformat(timespec="seconds"),
        "title": session.title,
        "named": session.named,
        "system": session.system,
        "sampling": asdict(session.sampling) if session.sampling else None,
        "model": session.model,
        "waiting": session.waiting,
        "dropped": sorted(session.dropped),
        "chosen": session.root.chosen.id if session.root.chosen else None,
        "nodes": [_node_to_plain(node) for node in session.nodes()],
    }


def save(session: Session, path: Path, *, now: datetime) -> None:
    """Write it to a file that does not exist yet. Raises UsageError."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"{path} ends neither in .md nor in .json.", "The ending says what is written.")
    text = markdown(session) if path.suffix == ".md" else as_json(session, now=now)
    try:
        with path.open("x", encoding="utf-8", errors="replace") as out:
            out.write(text)
    except (OSError, ValueError) as error:  # ValueError: a zero in the name
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot write {path}: {why}.", "Give the name of a new file.") from None


def as_json(session: Session, *, now: datetime) -> str:
    return json.dumps(to_plain(session, now=now), ensure_ascii=False, indent=1) + "\n"


def from_plain(plain: Any, source: str) -> Session:
    """A session of its own, with another id. Raises UsageError for what is none; `source` names it."""
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        raise UsageError(f"{source} is no exported session.", f"Its schema must be {SCHEMA!r}.")
    try:
        return _session(plain)
    except (KeyError, TypeError, ValueError, AttributeError, LocalspecError) as error:
        raise UsageError(
            f"{source} is a damaged export of a session.", f"{type(error).__name__}: {error}"
        ) from error


def _node_to_plain(node: Node) -> dict[str, Any]:
    place = {"id": node.id, "parent": node.parent.id if node.parent else 0}
    chosen = {"chosen": node.chosen.id if node.chosen else None}
    if node.message:
        return {**place, **chosen, "role": node.message.role, "text": node.message.text}
    assert node.answer is not None and node.asked is not None, "a message or an answer"
    return {
        **(place | chosen | {"role": "assistant", "text": node.answer.text}),
        **facts(node.answer, node.asked),
        "tokens": node.answer.token_ids,
        "pieces": [piece_to_plain(piece) for piece in node.answer.pieces],
        "rounds": [round_to_plain(made) for made in node.answer.rounds],
    }


def _session(plain: Mapping[str, Any]) -> Session:
    sampling = sampling_of(plain["sampling"]) if plain["sampling"] else None
    session = Session(_text(plain["system"] or "") or None, sampling=sampling, model=_text(plain["model"]))
    session.named = _text(plain["named"] or "") or None
    session.waiting = tuple(map(_text, plain["waiting"]))
    session.dropped = frozenset(map(int, plain["dropped"]))
    nodes = {0: session.root}
    for each in sorted(plain["nodes"], key=lambda each: int(each["id"])):
        if int(each["id"]) in nodes:
            raise ValueError("two messages have one id")
        nodes[int(each["id"])] = node = _node(each, nodes[each["parent"]])
        session.put(node)
    for id, chosen in [(0, plain["chosen"]), *((each["id"], each["chosen"]) for each in plain["nodes"])]:
        nodes[id].chosen = nodes[chosen] if chosen is not None else None
        if chosen is not None and nodes[chosen].parent is not nodes[id]:
            raise ValueError("a message is followed by one that is not its answer")
    return session


def _node(plain: Mapping[str, Any], parent: Node) -> Node:
    if plain["role"] == "user":
        return Node(int(plain["id"]), parent, message=Message("user", _text(plain["text"])))
    answer = Answer(**answer_fields(plain))
    pairs = zip(plain["tokens"], plain["pieces"], strict=True)
    answer.pieces = [Piece(int(token), *map(_text, rest)) for token, rest in pairs]
    answer.rounds = [round_of(made) for made in plain["rounds"]]
    return Node(int(plain["id"]), parent, answer=answer, asked=asked_of(plain))


def _text(plain: Any) -> str:
    if not isinstance(plain, str):
        raise TypeError(f"a text is {plain!r}")
    return plain
