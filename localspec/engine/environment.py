"""What a figure depends on besides the settings: versions, devices, machine, memory."""

from __future__ import annotations

import platform
import sys
from dataclasses import asdict
from typing import Any

from localspec import __version__
from localspec.engine.messages import Environment
from localspec.llama import devices
from localspec.model import ModelInfo


def environment(models: tuple[ModelInfo, ...], numerics: str = "fast") -> Environment:
    versions = devices.versions()
    return Environment(
        localspec=__version__,
        llama_cpp_python=versions.llama_cpp_python,
        llama_cpp=versions.llama_cpp,
        backend=devices.backend_name(),
        devices=tuple(device.description for device in devices.list_devices()),
        cpu=devices.cpu_name(),
        threads=models[0].threads if models else devices.physical_cores(),
        os=platform.platform(),
        peak_memory_bytes=_peak_memory(),
        models=models,
        numerics=numerics,
    )


def described(environment: Environment) -> dict[str, Any]:
    """The field `environment` of the JSON contracts."""
    models = [
        {"role": m.role, "path": m.path, "bytes": m.bytes, "fingerprint": m.fingerprint, "n_ctx": m.n_ctx}
        | {"gpu_layers": m.gpu_layers, "flash_attn": m.flash_attn}
        | {"cache_type_k": m.cache_type_k, "cache_type_v": m.cache_type_v}
        | {"numerics": asdict(m.numerics) if m.numerics else None}
        for m in environment.models
    ]
    return asdict(environment) | {"devices": list(environment.devices), "models": models}


def _peak_memory() -> int:
    """The largest resident size of this process so far, in bytes; 0 where the system doesn't say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
