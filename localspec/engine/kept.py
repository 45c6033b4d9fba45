"""What was measured on this machine and is worth keeping: small JSON files in the cache folder.

A file that can't be read or written costs the time of a measurement, nothing else. With workers nothing is kept: an
address says neither what computes behind it nor how far away it is, and both may be others next time.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from localspec import __version__, config
from localspec.llama import devices, workers
from localspec.model import ModelInfo


def place(kind: str, models: tuple[ModelInfo, ...]) -> Path | None:
    """Where measurements of that kind are kept for these models, with everything that they may depend on; None where
    that can't be known."""
    if workers.are_used():
        return None
    parts = [
        (m.fingerprint, m.n_ctx, m.gpu_layers, m.threads, m.flash_attn, m.cache_type_k, m.cache_type_v)
        for m in models
    ]
    machine = (devices.cpu_name(), [(device.backend, device.description) for device in devices.list_devices()])
    key = sha256(repr((parts, machine, __version__, devices.versions())).encode()).hexdigest()[:32]
    return config.cache_dir() / kind / f"{key}.json"


def read(place: Path | None) -> Any:
    """None where there is nothing of use."""
    if place is None:
        return None
    try:
        return json.loads(place.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def write(place: Path | None, found: Any) -> None:
    if place is None:
        return
    part = place.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps(found), "utf-8")
        part.replace(place)
