"""What servers count of their drafts: llama-server in `timings`, vLLM on its page of metrics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from localspec.chat.reported import Reported

_LINE = re.compile(
    r"^vllm:spec_decode_num_(drafts|draft_tokens|accepted_tokens)(?:_total)?(?:\{[^}]*\})? +([0-9.eE+]+)\s*$", re.M
)


def of_timings(timings: Mapping[str, Any], tokens: int | None) -> Reported:
    """Without drafts llama-server leaves the fields out; that it drafted nothing is not said by that."""
    drafted, accepted = timings.get("draft_n"), timings.get("draft_n_accepted")
    known = isinstance(drafted, int) and isinstance(accepted, int)
    return Reported("llama-server", tokens, *((drafted, accepted) if known else (None, None)))


def of_metrics(page: str) -> dict[str, float] | None:
    """Sums over the engines of a page; None where it has no such counters."""
    found: dict[str, float] = {}
    for name, value in _LINE.findall(page):
        found[name] = found.get(name, 0.0) + float(value)
    return found or None


def difference(
    before: Mapping[str, float] | None, after: Mapping[str, float] | None, tokens: int | None
) -> Reported:
    """What was counted during one request. Where others asked too, it is theirs as well; a counter that went back
    says nothing."""
    if before is None or after is None:
        return Reported("vLLM", tokens)
    drafts, drafted, accepted = (
        round(after.get(name, 0.0) - before.get(name, 0.0))
        for name in ("drafts", "draft_tokens", "accepted_tokens")
    )
    if min(drafts, drafted, accepted) < 0:
        return Reported("vLLM", tokens)
    return Reported("vLLM", tokens, drafted, accepted, drafts)
