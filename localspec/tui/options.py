"""What a chat was started with. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.spec.settings import Sampling


@dataclass(frozen=True, slots=True)
class Options:
    """`title` names the model until the engine knows it better."""

    title: str
    method: str
    draft_tokens: int
    sampling: Sampling
    max_tokens: int | None = None
    system: str | None = None
    stop: tuple[str, ...] = ()
