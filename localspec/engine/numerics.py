"""The numerics of a loaded model, measured once for a model, its settings, a version and a machine, and kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from localspec import config
from localspec.engine import kept
from localspec.llama.model import LlamaModel
from localspec.model import ModelInfo
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
    kept.write(places[0 if deep else 1], asdict(found) | _named(model.info))
    return found


def known() -> list[dict[str, str]]:
    """What was measured here so far, the latest first: `model`, `settings`, and the `result` in words."""
    places = (config.cache_dir() / "numerics").glob("*/*.json")
    latest = sorted(places, key=lambda place: place.stat().st_mtime, reverse=True)
    read = [(saved, _restored(saved)) for saved in map(kept.read, latest)]
    return [
        {"model": saved["model"], "settings": saved["settings"], "result": str(found)}
        for saved, found in read
        if found is not None and "model" in saved
    ]


def _named(info: ModelInfo) -> dict[str, str]:
    """For people who look into the file; what it belongs to is in its name."""
    flash = "flash attention" if info.flash_attn else "no flash attention"
    return {"model": info.name, "settings": f"{flash}, cache {info.cache_type_k}/{info.cache_type_v}"}


def _restored(saved: Any) -> Numerics | None:
    try:
        return Numerics(int(saved["widest"]), float(saved["noise"]), tuple(saved["tested"]), int(saved["context"]))
    except (ValueError, KeyError, TypeError):
        return None
