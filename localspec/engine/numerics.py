"""The numerics of a loaded model, measured once for a model, its settings, a version and a machine, and kept.

A file that can't be read or written costs the time of a measurement, nothing else.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path

from localspec import __version__, config
from localspec.llama import devices
from localspec.llama.model import LlamaModel
from localspec.model import ModelInfo
from localspec.spec.numerics import Numerics, probe


def numerics(model: LlamaModel, *, deep: bool) -> Numerics | None:
    """None where drafts can't be checked at all: then the width of a batch changes nothing."""
    if model.speculation_off:
        return None
    folder = config.cache_dir() / "numerics"
    places = [folder / f"{_key(model.info)}-{depth}.json" for depth in ("deep", "quick")]
    known = next(filter(None, map(_read, places[:1] if deep else places)), None)
    if known is not None:
        return known
    found = probe(model, deep=deep)
    _write(places[0 if deep else 1], found)
    return found


def _key(info: ModelInfo) -> str:
    """Everything that the choice of kernels may depend on."""
    parts = (
        *(info.fingerprint, info.n_ctx, info.gpu_layers, info.threads, info.flash_attn),
        *(info.cache_type_k, info.cache_type_v, __version__, devices.versions()),
        *(devices.cpu_name(), [(device.backend, device.description) for device in devices.list_devices()]),
    )
    return sha256(repr(parts).encode()).hexdigest()[:32]


def _read(place: Path) -> Numerics | None:
    try:
        kept = json.loads(place.read_text("utf-8"))
        return Numerics(int(kept["widest"]), float(kept["noise"]), tuple(kept["tested"]), int(kept["context"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(place: Path, found: Numerics) -> None:
    part = place.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(asdict(found)), "utf-8")
        part.replace(place)
