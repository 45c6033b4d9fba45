"""vLLM's --speculative-config: the same JSON, the same field names, the same meaning or a refusal with the reason."""

from __future__ import annotations

import json
from typing import Any

from localspec.errors import UnknownName, UsageError

# Its field -> our setting. `model` is the draft's file here, since there is no server that would fetch it.
_FIELDS = {
    "method": "method",
    "model": "draft",
    "num_speculative_tokens": "draft_tokens",
    "prompt_lookup_min": "lookup_min",
    "prompt_lookup_max": "lookup_max",
}
_REFUSED = {
    "draft_tensor_parallel_size": "the draft runs on one device here; use --draft-gpu-layers to place it",
}


def settings(text: str) -> dict[str, Any]:
    """Our settings by name; raises UsageError for what can't be meant here."""
    flag = "--speculative-config"
    try:
        given = json.loads(text)
    except json.JSONDecodeError as error:
        raise UsageError(f"{flag} is no JSON: {error.msg} at character {error.pos + 1}.", _EXAMPLE) from None
    if not isinstance(given, dict):
        raise UsageError(f"{flag} must be a JSON object, not {given!r}.", _EXAMPLE)
    for name in given:
        if name in _REFUSED:
            raise UsageError(f"{flag}: {name} is not possible: {_REFUSED[name]}.", "Leave it out.")
        if name not in _FIELDS:
            raise UnknownName(f"field in {flag}", name, (*_FIELDS, *_REFUSED))
    found = {_FIELDS[name]: value for name, value in given.items() if value is not None}
    return found | ({"method": "draft"} if "draft" in found and "method" not in found else {})


_EXAMPLE = """For example: '{"method": "ngram", "num_speculative_tokens": 5}'"""
