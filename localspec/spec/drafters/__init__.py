"""Drafters: ways to propose tokens, one file each.

`DRAFTERS` holds those that need nothing but the context. The others need a loaded model; engine/drafting.py builds
them all.
"""

from __future__ import annotations

from collections.abc import Callable

from localspec.spec.drafters.lookup import Lookup
from localspec.spec.drafters.off import Off
from localspec.spec.drafters.suffix import Suffix
from localspec.spec.types import Drafter

DRAFTERS: dict[str, Callable[[], Drafter]] = {"off": Off, "lookup": Lookup, "suffix": Suffix}


def create(name: str) -> Drafter:
    return DRAFTERS[name]()
