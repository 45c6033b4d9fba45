"""What llama.cpp can compute on here: its backends' devices, and the versions behind them."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as installed
from pathlib import Path
from typing import Any

from localspec.llama.cpu import physical_cores, usable_cpus
from localspec.llama.native import lc, version

__all__ = [
    "Device",
    "Versions",
    "backend_name",
    "backends",
    "cpu_name",
    "function",
    "handles",
    "has",
    "has_gpu",
    "list_devices",
    "physical_cores",
    "usable_cpus",
    "versions",
]

_KINDS = {0: "cpu", 1: "gpu", 2: "igpu", 3: "accelerator"}
_NAMES = {"MTL": "Metal", "ROCm": "ROCm", "CUDA": "CUDA", "Vulkan": "Vulkan", "SYCL": "SYCL"}


@dataclass(frozen=True, slots=True)
class Device:
    name: str  # CUDA0, CPU
    description: str  # as the maker calls it
    kind: str  # cpu | gpu | igpu | accelerator | other
    backend: str  # llama.cpp's registry: CPU, CUDA, MTL, Vulkan, ...
    free: int  # bytes of memory; a snapshot
    total: int


@dataclass(frozen=True, slots=True)
class Versions:
    llama_cpp_python: str
    llama_cpp: str
    system_info: str  # what the build can use of this processor


def versions() -> Versions:
    return Versions(installed("llama-cpp-python"), version(), lc.llama_print_system_info().decode().strip(" |"))


def list_devices() -> tuple[Device, ...]:
    return tuple(_device(handle) for handle in handles())


def handles() -> tuple[int, ...]:
    """The native devices, in the order of `list_devices`."""
    count = function("ggml_backend_dev_count", ctypes.c_size_t)()
    get = function("ggml_backend_dev_get", ctypes.c_void_p, ctypes.c_size_t)
    return tuple(get(i) for i in range(count))


def backends() -> tuple[str, ...]:
    """What this build brings along, whether there is a device for it or not: CPU, CUDA, MTL, Vulkan, RPC, ..."""
    count = function("ggml_backend_reg_count", ctypes.c_size_t)()
    get = function("ggml_backend_reg_get", ctypes.c_void_p, ctypes.c_size_t)
    name = function("ggml_backend_reg_name", ctypes.c_char_p, ctypes.c_void_p)
    return tuple(name(get(i)).decode(errors="replace") for i in range(count))


def has_gpu(devices: Sequence[Device]) -> bool:
    return any(device.kind in ("gpu", "igpu") for device in devices)


def backend_name(devices: Sequence[Device] | None = None) -> str:
    """Where the layers go when nobody says otherwise: "CUDA", "Metal", "Vulkan", ..., "CPU"."""
    found = list_devices() if devices is None else devices
    for kind in ("gpu", "igpu"):
        for device in found:
            if device.kind == kind:
                return _NAMES.get(device.backend, device.backend)
    return "CPU"


def cpu_name() -> str:
    """What the processor calls itself."""
    return next((d.description for d in list_devices() if d.kind == "cpu"), "unknown")


def _device(handle: int) -> Device:
    def text(symbol: str, of: int) -> str:
        found: bytes | None = function(symbol, ctypes.c_char_p, ctypes.c_void_p)(of)
        return (found or b"").decode(errors="replace").strip()

    free, total = ctypes.c_size_t(0), ctypes.c_size_t(0)
    size = ctypes.POINTER(ctypes.c_size_t)
    memory = function("ggml_backend_dev_memory", None, ctypes.c_void_p, size, size)
    memory(handle, ctypes.byref(free), ctypes.byref(total))
    kind = _KINDS.get(function("ggml_backend_dev_type", ctypes.c_int, ctypes.c_void_p)(handle), "other")
    registry = function("ggml_backend_dev_backend_reg", ctypes.c_void_p, ctypes.c_void_p)(handle)
    return Device(
        name=text("ggml_backend_dev_name", handle),
        description=text("ggml_backend_dev_description", handle),
        kind=kind,
        backend=text("ggml_backend_reg_name", registry),
        # For the processor llama.cpp says that all memory is free.
        free=(_free_memory() or free.value) if kind == "cpu" else free.value,
        total=total.value,
    )


def _free_memory() -> int:
    """Bytes that the system can give without swapping; 0 where it doesn't say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), 0)


@cache
def _libraries() -> tuple[Any, ...]:
    """Elsewhere libllama passes ggml's symbols on; on Windows each library must be asked."""
    if sys.platform != "win32":
        return (lc._lib,)
    folder = os.path.dirname(lc._lib._name)
    return (lc._lib, *(ctypes.CDLL(os.path.join(folder, name)) for name in ("ggml.dll", "ggml-base.dll")))


def has(symbol: str) -> bool:
    """Does this build bring this function?"""
    return any(hasattr(library, symbol) for library in _libraries())


@cache
def function(symbol: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    """A function of ggml that the binding doesn't declare. Handles are 64 bits wide, so types are explicit."""
    found = next(getattr(library, symbol) for library in _libraries() if hasattr(library, symbol))
    function: Callable[..., Any] = ctypes.cast(found, ctypes.CFUNCTYPE(result, *arguments))
    return function
