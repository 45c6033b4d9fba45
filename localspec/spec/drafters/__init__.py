"""Drafters: ways to propose tokens, one file each.

`create` is the registry that the command line, the live switch and the contract tests share. Names of other
engines are accepted as aliases, so that a command copied from their documentation works.
"""

from __future__ import annotations

from collections.abc import Callable

from localspec.errors import UnknownName
from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.types import Drafter

DRAFTERS: dict[str, Callable[[], Drafter]] = {"off": Off, "lookup": Lookup}

ALIASES = {
    "none": "off",
    "ngram": "lookup",
    "ngram-simple": "lookup",
    "prompt-lookup": "lookup",
    "prompt_lookup": "lookup",
}


def canonical(name: str) -> str:
    """The registered name behind a name or alias; raises UnknownName with the nearest one."""
    name = ALIASES.get(name.lower(), name.lower())
    if name not in DRAFTERS:
        raise UnknownName("method", name, DRAFTERS)
    return name


def create(name: str) -> Drafter:
    return DRAFTERS[canonical(name)]()
