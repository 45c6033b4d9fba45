"""The numerics of a loaded model, measured once for a model, its settings, a version and a machine, and kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from localspec.engine import kept
from localspec.llama.model import LlamaModel
from localspec.spec.numerics import Numerics, probe


def numerics(model: LlamaModel, *, deep: bool) -> Numerics | None:
    """None where drafts can't be checked at all: then the width of a batch changes nothing."""
    if model.speculation_off:
        return None
    places = [kept.place(f"numerics/{depth}", (model.info,)) for depth in ("deep", "quick")]
    known = next(filter(None, (_restored(kept.read(place)) for place in (places[:1] if deep else places))), None)
    if known is not None:
        return known
    found = probe(model, deep=deep)
    kept.write(places[0 if deep else 1], asdict(found))
    return found


def _restored(saved: Any) -> Numerics | None:
    try:
        return Numerics(int(saved["widest"]), float(saved["noise"]), tuple(saved["tested"]), int(saved["context"]))
    except (ValueError, KeyError, TypeError):
        return None
