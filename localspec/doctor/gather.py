"""Look at this machine. Every look has a time limit and a plain answer where there is nothing to see."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as installed
from pathlib import Path

from localspec import __version__, catalog, config
from localspec.doctor import hub, native, remote
from localspec.doctor.facts import BROKE_OFF, Build, Card, Facts, Place, Terminal, Worker
from localspec.methods import installed as other_drafters

PACKAGES = ("llama-cpp-python", "textual", "huggingface_hub", "numpy")
TOOLS = ("nvcc", "glslc", "c++", "g++", "clang++", "cl")
FLAGS = ("avx", "avx2", "f16c", "fma", "avx512f")
LIMIT = 60  # seconds that llama.cpp may take: the first start of a GPU driver is slow
WORKER_LIMIT = 30  # seconds for one worker, the start of the process that asks it included
_AT_ONCE = 8
_VENDORS = {"0x10de": "NVIDIA", "0x1002": "AMD", "0x8086": "Intel"}
_SYSTEMS = {"linux": "linux", "darwin": "macos", "win32": "windows"}


def gather(rpc: Sequence[str] = ()) -> Facts:
    asked, looked = hub.ask(os.environ), ask_workers(rpc)
    build, trouble = ask_llama()
    return Facts(
        system=_SYSTEMS.get(sys.platform, "linux"),
        os=platform.platform(),
        machine=platform.machine(),
        python=platform.python_version(),
        packages={"localspec": __version__} | {name: _version(name) for name in PACKAGES},
        pinned=pinned(requires("localspec") or []) if _version("localspec") else "",
        build=build,
        trouble=trouble,
        cards=cards(),
        cpu_flags=cpu_flags(Path("/proc/cpuinfo")),
        tools=tuple(tool for tool in TOOLS if shutil.which(tool)),
        hub=asked(),
        places=places(),
        terminal=terminal(os.environ),
        drafters={name: point.value for name, point in other_drafters().items()},
        workers=looked(),
    )


def ask_llama(command: tuple[str, ...] = (sys.executable, "-m", native.__name__)) -> tuple[Build | None, str]:
    """What llama.cpp says of itself, or why it says nothing."""
    try:
        done = _done(command, LIMIT)
    except subprocess.TimeoutExpired:
        return None, f"it did not answer within {LIMIT} seconds"
    if done.returncode == 0 and (lines := done.stdout.splitlines()):
        return native.restored(lines[-1]), ""
    return None, _reason(done)


def ask_workers(places: Sequence[str]) -> Callable[[], tuple[Worker, ...]]:
    """Begin to ask all of them; what is returned waits."""
    if not places:
        return tuple
    pool = ThreadPoolExecutor(min(len(places), _AT_ONCE))
    asked = [pool.submit(ask_worker, place) for place in places]
    return lambda: tuple(each.result() for each in asked)


def ask_worker(place: str, command: tuple[str, ...] = (sys.executable, "-m", remote.__name__)) -> Worker:
    """Native code waits for ever for a worker that falls silent, and ends its process when one breaks off."""
    try:
        # It needs no card of its own, and they start slowly.
        done = _done((*command, place), WORKER_LIMIT, CUDA_VISIBLE_DEVICES="")
    except subprocess.TimeoutExpired:
        return Worker(place, f"fell silent for {WORKER_LIMIT} seconds")
    if done.returncode == 0 and (lines := done.stdout.splitlines()):
        return remote.restored(lines[-1])
    return Worker(place, BROKE_OFF if done.returncode < 0 else f"can't be asked ({_reason(done)})")


def _done(command: tuple[str, ...], seconds: float, **variables: str) -> subprocess.CompletedProcess[str]:
    """Where this package is found, the other process must find it too. Raises subprocess.TimeoutExpired."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **variables}
    return subprocess.run(
        command, capture_output=True, text=True, errors="replace", timeout=seconds, check=False, env=env
    )


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if done.returncode < 0:
        return f"it ended the process: {signal.Signals(-done.returncode).name}"
    # The last line of a traceback is the error itself.
    return re.sub(r"^[\w.]*(?:Error|Exception): ", "", said[-1]) if said else f"exit code {done.returncode}"


def pinned(requirements: list[str]) -> str:
    """The version of llama-cpp-python among what a package requires."""
    found = (re.fullmatch(r"llama[-_]cpp[-_]python==([\w.]+).*", each) for each in requirements)
    return next((match[1] for match in found if match), "")


def cards() -> tuple[Card, ...]:
    if sys.platform == "darwin":
        return (Card("Apple", platform.machine()),) if platform.machine() == "arm64" else ()
    if sys.platform == "win32":
        command = ("powershell", "-NoProfile", "-Command", "(Get-CimInstance Win32_VideoController).Name")
        return named_cards(_said(*command))
    return linux_cards(Path("/sys/class/drm"), Path("/proc/driver/nvidia/gpus"), nvidia_names())


def linux_cards(drm: Path, nvidia: Path, names: tuple[str, ...]) -> tuple[Card, ...]:
    """`names` is what nvidia-smi knows. A container may see that, or the driver's files, or neither."""
    vendors = [_VENDORS.get(_read(place).strip(), "") for place in sorted(drm.glob("card[0-9]*/device/vendor"))]
    informed = [_read(place) for place in sorted(nvidia.glob("*/information"))]
    models = names or tuple(match[1] for text in informed if (match := re.search(r"Model:\s*(.+)", text)))
    found = [Card("NVIDIA", model.strip()) for model in models]
    if not found and "NVIDIA" in vendors:
        found = [Card("NVIDIA", driver=False)]
    return (*found, *(Card(vendor) for vendor in vendors if vendor in ("AMD", "Intel")))


def named_cards(text: str) -> tuple[Card, ...]:
    """One name a line, as Windows gives them."""
    vendors = {"nvidia": "NVIDIA", "amd": "AMD", "radeon": "AMD", "intel": "Intel"}
    lines = [line.strip() for line in text.splitlines()]
    found = ((next((v for word, v in vendors.items() if word in line.lower()), ""), line) for line in lines)
    return tuple(Card(vendor, line) for vendor, line in found if vendor)


def nvidia_names() -> tuple[str, ...]:
    said = _said("nvidia-smi", "--query-gpu=name", "--format=csv,noheader")
    return tuple(line.strip() for line in said.splitlines() if line.strip())


def cpu_flags(cpuinfo: Path) -> tuple[str, ...]:
    """Those of `FLAGS` that this processor has; none where the system doesn't say."""
    line = next((line for line in _read(cpuinfo).splitlines() if line.startswith("flags")), "")
    return tuple(flag for flag in FLAGS if flag in line.split())


def places() -> tuple[Place, ...]:
    folders = {
        "config": config.config_dir(),
        "data": config.data_dir(),
        "cache": config.cache_dir(),
        "log": config.log_file().parent,
        "models": catalog.hub_cache(),
    }
    return tuple(_place(name, folder) for name, folder in folders.items())


def _place(name: str, folder: Path) -> Place:
    there = next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())
    return Place(name, str(folder), os.access(there, os.W_OK), shutil.disk_usage(there).free)


def terminal(env: Mapping[str, str]) -> Terminal:
    columns, rows = shutil.get_terminal_size()
    return Terminal(sys.stdout.isatty(), env.get("TERM", ""), colours(env), columns, rows)


def colours(env: Mapping[str, str]) -> int:
    """How many the terminal claims to have, by the variables that programs go by."""
    term = env.get("TERM", "")
    if env.get("NO_COLOR") or term == "dumb":
        return 0
    if env.get("COLORTERM") in ("truecolor", "24bit") or env.get("WT_SESSION") or "direct" in term:
        return 1 << 24
    return 256 if "256" in term else 16


def _version(name: str) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
