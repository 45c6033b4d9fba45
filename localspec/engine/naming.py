"""The texts of tokens that were considered and not chosen: only the engine knows the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from localspec.spec.types import Round, Token


class Names:
    """One per answer; tells each token once."""

    def __init__(self, name: Callable[[Token], str]) -> None:
        self._name = name
        self._told: set[Token] = set()

    def fresh(self, rounds: Iterable[Round]) -> tuple[tuple[Token, str], ...]:
        seen = {token for made in rounds for token in made.considered}
        new = sorted(seen - self._told)
        self._told |= seen
        return tuple((token, self._name(token)) for token in new)
