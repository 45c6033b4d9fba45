"""`--dry-run`: what a load would do, printed, and nothing loaded. Standard output is data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from localspec.chat.text import one_line
from localspec.engine.messages import Load
from localspec.engine.placing import Placing, place
from localspec.fit.plan import size

SCHEMA = "localspec.plan/1"


def show(load: Load, title: str, *, as_json: bool = False) -> int:
    """Print the plan; 1 where it would be refused."""
    placing = place(load)
    if as_json:
        print(json.dumps(document(placing), ensure_ascii=False, indent=2))
    else:
        print(one_line(title, 200))
        print("\n".join(f"  {label:<9}{one_line(text, 1000)}" for label, text in _rows(placing)))
    return 1 if placing.refused else 0


def document(placing: Placing) -> dict[str, object]:
    draft, here = placing.command.draft, placing.capacity
    return {
        "schema": SCHEMA,
        "target": placing.command.target.path,
        "draft": draft.path if draft else None,
        "plan": asdict(placing.plan),
        "remedy": placing.remedy if placing.refused else None,
        "notes": list(placing.notes),
        "memory": {"host_free": here.host, "gpus": [gpu._asdict() for gpu in here.gpus], "source": here.source},
    }


def _rows(placing: Placing) -> Iterator[tuple[str, str]]:
    found, here, draft = placing.plan, placing.capacity, placing.command.draft
    yield (
        "Target",
        _model(placing.command.target.path, placing.footprint.weights, found.target_layers, found.target_of),
    )
    if draft and placing.draft:
        yield "Draft", _model(draft.path, placing.draft.weights, found.draft_layers, found.draft_of)
    elif draft:
        yield "Draft", f"{draft.path} can't be read, and would be left out"
    yield "Context", f"{found.n_ctx:,} tokens, K and V cache in {found.cache.replace('/', ' and ')}"
    for gpu in here.gpus:
        yield "GPU", f"{gpu.name}: {size(gpu.free)} of {size(gpu.total)} free"
    if here.gpus:
        yield "On GPUs", size(found.device_bytes)
    yield "On host", f"{size(found.host_bytes)}" + (f" of {size(here.host)} free" if here.host else "")
    yield "Verdict", f"{found.verdict}: {found.reason}."
    if placing.refused:
        yield "", placing.remedy
    for note in placing.notes:
        yield "Note", note


def _model(path: str, weights: int, layers: int, of: int) -> str:
    return f"{Path(path).name}, {size(weights)}, {layers} of {of} layers on the GPU"
