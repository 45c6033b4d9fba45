"""The processor as llama.cpp should use it: one thread for each physical core that this process may use.

A thread that has to share a core makes llama.cpp many times slower, since its threads wait for each other by
spinning. So affinity and container quotas count, and hyper-threads don't.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Iterable
from pathlib import Path


def usable_cpus() -> int:
    """Logical processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def physical_cores() -> int:
    """Cores that this process may use, at least 1."""
    if sys.platform == "linux":
        cores = linux_cores(Path("/sys/devices/system/cpu"), os.sched_getaffinity(0))
        quota = cgroup_quota(Path("/sys/fs/cgroup"), Path("/proc/self/cgroup"))
        return max(1, int(min(cores, quota)))
    if sys.platform == "darwin":
        # The efficiency cores of Apple chips slow the others down.
        return _sysctl("hw.perflevel0.physicalcpu") or _sysctl("hw.physicalcpu") or 1
    return _windows_cores() if sys.platform == "win32" else usable_cpus()


def linux_cores(system: Path, allowed: Iterable[int]) -> int:
    """Distinct groups of sibling threads among the allowed processors. A processor that doesn't name its
    siblings counts as a core of its own."""
    groups = set()
    for cpu in allowed:
        try:
            groups.add((system / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip())
        except OSError:
            groups.add(str(cpu))
    return len(groups)


def cgroup_quota(root: Path, membership: Path) -> float:
    """Processors' worth of time that a container grants; infinite without a limit. The tightest of the groups
    above counts. Understands version 2 and the usual mount of version 1."""
    places = [root, root / "cpu"]
    for line in _read(membership).splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "" or "cpu" in controllers.split(","):
            group = (root if controllers == "" else root / "cpu") / path.strip("/")
            places += [group, *(p for p in group.parents if p.is_relative_to(root))]
    return min((quota for place in places for quota in (_quota_v2(place), _quota_v1(place))), default=math.inf)


def _quota_v2(place: Path) -> float:
    quota, _, period = _read(place / "cpu.max").strip().partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(quota) else math.inf


def _quota_v1(place: Path) -> float:
    quota, period = (_read(place / f"cpu.cfs_{name}_us").strip() for name in ("quota", "period"))
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else math.inf


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _sysctl(name: str) -> int:
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    libc = ctypes.CDLL(None)
    failed = libc.sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, ctypes.c_size_t(0))
    return 0 if failed else value.value


def _windows_cores() -> int:
    """Entries that describe a core in GetLogicalProcessorInformation: 8 bytes of mask, then the relation (0)."""
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined, unused-ignore]
    size = ctypes.c_uint32(0)
    kernel.GetLogicalProcessorInformation(None, ctypes.byref(size))
    buffer = (ctypes.c_byte * size.value)()
    if not kernel.GetLogicalProcessorInformation(buffer, ctypes.byref(size)):
        return usable_cpus()
    entry = 16 + 2 * ctypes.sizeof(ctypes.c_size_t)
    data, pointer = bytes(buffer), ctypes.sizeof(ctypes.c_size_t)
    return sum(data[at + pointer] == 0 for at in range(0, size.value, entry)) or usable_cpus()
