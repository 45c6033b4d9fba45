"""What to leave out when a conversation no longer fits the model's context. Knows no engine and no screen."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.chat.session import Node, Session

_FREE = 0.5  # of the context, after the oldest turns are left out: else the question comes back at once


@dataclass(frozen=True, slots=True)
class Full:
    """The context is full, and the user has the choice: leave out the `oldest` messages (none: there is nothing to
    leave out), begin a new session, or stop here."""

    used: int
    room: int
    oldest: tuple[Node, ...]


def oldest(session: Session, used: int, room: int, *, answered: bool) -> tuple[Node, ...]:
    """The messages of the oldest turns, as many as it takes; never the last question where that was `answered`, at
    least in part. How many tokens a message has is estimated from its share of the text.
    """
    read = [node for node in session.path if node.id not in session.dropped]
    starts = [at for at, node in enumerate(read) if node.message]
    starts = starts if answered else [*starts, len(read)]
    lengths = [len(node.message.text if node.message else node.answer.text if node.answer else "") for node in read]
    total = sum(lengths) or 1
    for at in starts[1:]:
        if used * (1 - sum(lengths[:at]) / total) <= _FREE * room:
            return tuple(read[:at])
    return tuple(read[: starts[-1]]) if starts else ()
