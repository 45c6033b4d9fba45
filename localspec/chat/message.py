"""What a conversation is made of, as plain data that can cross a pipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn. `token_ids` are the ids an answer was generated with: text encoded again may give other ids,
    and then the cached prefix is lost."""

    role: Role
    text: str
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """The text that one emitted token completed (empty for half a character or a control token).

    `provenance` is the drafter's name, `bonus`, `correction` or `plain`. `ghost` is the text of the rejected tail
    of the draft, on the token that replaced it.
    """

    token: int
    text: str
    provenance: str
    ghost: str = ""
