"""Everything else that a figure depends on, as far as it can be found out: the field `environment` of a report.

Paths stay out: a report is made to be shown to others. A file is known by its name, size and fingerprint.
"""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from localspec.engine.environment import described
from localspec.engine.messages import Environment

_ROOT = Path(__file__).parent.parent.parent
_PACKAGES = ("numpy", "llama-cpp-python")


def surroundings(environment: Environment, device_bytes: int) -> dict[str, Any]:
    """`device_bytes`: the most that loading and answering took on the GPUs."""
    found = described(environment)
    return found | {
        "models": [{"file": Path(model.pop("path")).name, **model} for model in found["models"]],
        "peak_device_bytes": device_bytes or None,
        "driver": driver(),
        "commit": commit(_ROOT),
        "python": platform.python_version(),
        "packages": {name: _installed(name) for name in _PACKAGES},
        "logical_processors": os.cpu_count(),
        "load_average": _load_average(),
    }


def commit(root: Path) -> str | None:
    """Of the checkout that runs, with `+` where files were changed; None for an installed package."""
    if not (root / ".git").exists():
        return None
    try:
        head = _git(root, "rev-parse", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+" if changed else "")


def driver() -> str | None:
    """Of an NVIDIA GPU, in the kernel's words. Other drivers name themselves among the devices."""
    try:
        return Path("/proc/driver/nvidia/version").read_text("utf-8").splitlines()[0]
    except (OSError, IndexError):
        return None


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True, timeout=10)
    return done.stdout.strip()


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _load_average() -> list[float] | None:
    """How busy the machine was, this program included: 1, 5 and 15 minutes."""
    try:
        return list(os.getloadavg())
    except (AttributeError, OSError):  # Windows
        return None
