"""What a figure depends on besides the settings: versions, devices, machine, memory."""

from __future__ import annotations

import platform
import sys

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


def _peak_memory() -> int:
    """The largest resident size of this process so far, in bytes; 0 where the system doesn't say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
