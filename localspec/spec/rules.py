"""The names of the acceptance rules. Pure data: a screen may ask, and needs no verifier for it."""

from __future__ import annotations

EXACT = ("block", "token")


def is_lossy(name: str) -> bool:
    """Whether the rule changes the text's distribution (`typical=0.3`)."""
    return name not in EXACT
