"""Fuzzy matching: the letters of a query in their order, the nearer together the better. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def match(query: str, text: str) -> tuple[float, tuple[int, ...]] | None:
    """(how good, where the letters stand); None where `text` does not have them in this order."""
    low = text.lower() if len(text.lower()) == len(text) else text
    query = query.lower()
    if not query:
        return 0.0, ()
    # The last one: the name of a file says more than its folders.
    at = 0 if low.startswith(query) else low.rfind(query)
    if at >= 0:
        begins = 2 if at == 0 else 0 if low[at - 1].isalnum() else 1
        return 2.0 + begins + len(query) / len(text), tuple(range(at, at + len(query)))
    places: list[int] = []
    for letter in query:
        place = low.find(letter, places[-1] + 1 if places else 0)
        if place < 0:
            return None
        places.append(place)
    return len(query) / (places[-1] - places[0] + 1), tuple(places)


def best(query: str, items: Iterable[T], text: Callable[[T], str], most: int) -> list[tuple[T, tuple[int, ...]]]:
    """The best matches first; equal ones in the order they came."""
    found = [(item, fit) for item in items if (fit := match(query, text(item))) is not None]
    found.sort(key=lambda pair: -pair[1][0])
    return [(item, fit[1]) for item, fit in found[:most]]
