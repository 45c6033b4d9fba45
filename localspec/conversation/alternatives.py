"""What else the model considered at each token: which answers are asked for with it, how long it is remembered, and
why an answer has none. Knows no screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal, TypeAlias

from localspec.chat.answer import Answer
from localspec.chat.session import Node
from localspec.chat.stored import StoredAnswer
from localspec.engine.messages import Ready

if TYPE_CHECKING:
    from localspec.conversation.turns import Turns

When: TypeAlias = Literal["view", "always", "never"]
COUNT = 5
REMEMBERED = 20_000  # tokens with their alternatives, 0.9 KB each; the file of sessions keeps all of them


def asked_for(when: When, watched: bool | None, engine: object) -> int | None:
    """How many to ask for; None for none. `watched`: the chat is shown token by token; None where it never is."""
    able = watched is not None and isinstance(engine, Ready) and not engine.no_logprobs
    return COUNT if able and (when == "always" or (when == "view" and watched)) else None


def missing(chat: Turns, node: Node) -> str:
    """Why this answer has none, and what brings them."""
    if isinstance(chat.engine, Ready) and chat.engine.no_logprobs:
        return chat.engine.no_logprobs
    if chat.options.alternatives == "never":
        return 'the configuration says "never"'
    if not (chat.watched or chat.options.alternatives == "always"):
        return "not asked for; F5 asks from the next answer on"
    if node is chat.running:
        return "from the next answer on"
    written = "written before this view was on"
    return f"{written}; /regenerate has them" if node is chat.session.tip else written


def forget_oldest(answers: Iterable[Answer], most: int = REMEMBERED) -> None:
    """Keep those of the last `most` tokens in memory. The oldest answer comes first."""
    count = 0
    for answer in reversed(tuple(answers)):
        if isinstance(answer, StoredAnswer) and answer.unread:  # nothing of it is in memory
            continue
        count += sum(len(made.logprobs) for made in answer.rounds)
        if count > most:
            answer.forget_alternatives()
