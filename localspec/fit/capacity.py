"""How much memory this machine has free, found out without loading anything heavy: for lists and plans.

GPUs come from nvidia-smi where it is there, else from what the engine saw when it last ran: only llama.cpp knows
which ones its build can use. Knows nothing of models.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from localspec import config
from localspec.fit.plan import Capacity, Gpu

_TIMEOUT_S = 2.0  # a driver that sleeps takes a moment; a list must not wait longer
_QUERY = ("--query-gpu=index,memory.free,memory.total", "--format=csv,noheader,nounits")
_PROC, _CGROUP = Path("/proc"), Path("/sys/fs/cgroup")


def capacity() -> Capacity:
    host, seen = host_memory(), last_seen()
    if seen == ():
        return Capacity((), host, "the engine saw no GPU when it last ran")
    if gpus := _nvidia():
        return Capacity(gpus, host, "as nvidia-smi says")
    if seen:
        return Capacity(seen, host, "as the engine last saw them")
    return Capacity((), host, "no GPU is known yet: the engine looks when it first loads a model")


def host_memory() -> int:
    """Bytes that can be had without swapping, a container's limit respected; 0 where the system doesn't say."""
    if sys.platform == "linux":
        return linux_memory(_PROC, _CGROUP)
    if sys.platform == "darwin":
        return vm_stat(_output("vm_stat"))
    return _windows_memory() if sys.platform == "win32" else 0


def last_seen() -> tuple[Gpu, ...] | None:
    """The GPUs that the engine saw with the llama.cpp that is installed now; None where it never looked."""
    try:
        kept = json.loads(_place().read_text("utf-8"))
        if kept["build"] == _build():
            return tuple(
                Gpu(str(name), int(free), int(total), bool(own)) for name, free, total, own in kept["gpus"]
            )
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def remember(gpus: Iterable[Gpu]) -> None:
    """For the next list. A folder that can't be written to costs only that."""
    place, part = _place(), _place().with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        part.write_text(json.dumps({"build": _build(), "gpus": [list(gpu) for gpu in gpus]}), "utf-8")
        part.replace(place)


def linux_memory(proc: Path, cgroup: Path) -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", _read(proc / "meminfo"), re.MULTILINE)
    available = int(found[1]) * 1024 if found else 0
    limits = [left for place in _groups(proc, cgroup) if (left := _left(place)) is not None]
    return min([available, *limits]) if available else 0


def vm_stat(text: str) -> int:
    """What macOS can give: pages that are free, or that nobody would miss."""
    page = re.search(r"page size of (\d+) bytes", text)
    pages = re.findall(r"^Pages (?:free|inactive|speculative|purgeable):\s+(\d+)", text, re.MULTILINE)
    return int(page[1]) * sum(map(int, pages)) if page else 0


def nvidia_smi(text: str) -> tuple[Gpu, ...]:
    """Lines of index, free and total MiB. A line with something else is a GPU that can't be counted on."""
    found = re.findall(r"^\s*(\d+),\s*(\d+),\s*(\d+)\s*$", text, re.MULTILINE)
    return tuple(Gpu(f"CUDA{index}", int(free) << 20, int(total) << 20) for index, free, total in found)


class _Files(NamedTuple):
    """Where one version of control groups says what a group may use, and what it uses."""

    limit: str
    used: str
    cache: str  # the line of memory.stat with what can be dropped


_VERSIONS = (
    _Files("memory.max", "memory.current", "inactive_file"),
    _Files("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def _left(place: Path) -> int | None:
    """Bytes that a control group may still use; None without a limit."""
    for files in _VERSIONS:
        limit, used = _read(place / files.limit).strip(), _read(place / files.used).strip()
        if limit.isdigit() and used.isdigit():
            cache = re.search(rf"^{files.cache} (\d+)", _read(place / "memory.stat"), re.MULTILINE)
            return max(0, int(limit) - int(used) + (int(cache[1]) if cache else 0))
    return None


def _groups(proc: Path, cgroup: Path) -> list[Path]:
    """The groups of this process and those above, in either version."""
    places = [cgroup, cgroup / "memory"]
    for line in _read(proc / "self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        root = cgroup / "memory" if "memory" in controllers.split(",") else cgroup
        group = root / path.strip("/")
        places += [group, *(above for above in group.parents if above.is_relative_to(cgroup))]
    return places


def _nvidia() -> tuple[Gpu, ...]:
    return nvidia_smi(_output("nvidia-smi", *_QUERY))


def _output(*command: str) -> str:
    """What a program of the system prints; nothing where it is not there, fails or takes too long."""
    import shutil
    import subprocess

    if shutil.which(command[0]) is None:
        return ""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return ""
    return done.stdout


def _windows_memory() -> int:
    """ullAvailPhys of GlobalMemoryStatusEx: the second of the 64-bit numbers behind two 32-bit ones."""
    status = (ctypes.c_uint64 * 8)(64)
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined, unused-ignore]
    return int(status[2]) if kernel.GlobalMemoryStatusEx(ctypes.byref(status)) else 0


def _place() -> Path:
    return config.cache_dir() / "gpus.json"


def _build() -> int:
    """Differs after another llama.cpp was installed: what it can use may differ too."""
    spec = find_spec("llama_cpp")  # finds it without running it
    try:
        return Path(spec.origin).parent.stat().st_mtime_ns if spec and spec.origin else 0
    except OSError:
        return 0


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return ""
