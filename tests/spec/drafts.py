"""Drafts as plain data, to be compared."""

from __future__ import annotations

from typing import Any

from localspec.spec.types import Draft


def plainly(draft: Draft) -> list[Any]:
    probs = [(q.ids if q.ids is None else q.ids.tolist(), q.probs.tolist()) for q in draft.probs or ()]
    return [draft.tokens, draft.probs is None, probs, draft.source, draft.evidence]
