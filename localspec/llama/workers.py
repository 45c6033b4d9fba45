"""llama.cpp's RPC backend: layers of the target on other machines, and this machine as one of those.

Its symbols are probed, never assumed: a build without them says so. The protocol has no authentication, and native
code ends the process when a worker can't be reached, breaks off or speaks another version. So each worker is looked
at before it is joined, and its connection is watched, since a network that is cut says nothing by itself.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import threading
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import perf_counter, sleep
from typing import Any

from localspec.addresses import probes, split
from localspec.errors import LocalspecError
from localspec.llama import devices

_PATIENCE_S = 3.0
_LOOK_S = 1.0
_TRIPS = 3
_NO_GREETING = b"\xff"  # a worker that is free hangs up on it at once; a busy one does not hear it
HOW = 'Build it in: make clean, then make chat CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_RPC=ON"'


class NoWorkers(LocalspecError):
    def __init__(self) -> None:
        super().__init__("This build of llama.cpp has no RPC backend.", HOW)


@dataclass(slots=True)
class _Joined:
    """What the process has joined: native code can't forget a worker again. `used` are those of the present load."""

    devices: dict[str, tuple[int, ...]] = field(default_factory=dict)
    used: tuple[str, ...] = ()
    only_here: bool = False


_here = _Joined()


def is_built_in() -> bool:
    return devices.has("ggml_backend_rpc_add_server")


def join(places: Sequence[str]) -> tuple[str, ...]:
    """Use the devices of these workers, and of no others, from the next load on. Returns what the user should know.
    Raises NoWorkers."""
    if places and not is_built_in():
        raise NoWorkers
    found, notes = [], []
    for place in places:
        trouble = None if place in _here.devices else look(place)
        if trouble is None:
            if place not in _here.devices:
                _here.devices[place] = _register(place)
                _keep_watch(*split(place))
            found.append(place)
        else:
            notes.append(f"The worker {place} {trouble}. Its layers are put elsewhere.")
    _here.used = tuple(found)
    return tuple(notes)


def look(place: str) -> str | None:
    """Why a worker can't be used; None where it can."""
    try:
        said, _ = _probe(place)
    except TimeoutError:
        return "does not answer, or works for somebody else"
    except OSError as error:
        return f"can't be reached ({error.strerror or error})"
    return "is no worker of llama.cpp's" if said else None


def round_trip(place: str) -> float | None:
    """Seconds to a worker that can be used, and back; None where it is gone by now."""
    trips = []
    with suppress(OSError):
        for _ in range(_TRIPS):
            trips.append(_probe(place)[1])
    return min(trips, default=None)


def _probe(place: str) -> tuple[bytes, float]:
    """What it says to a greeting that is none, and the seconds until it said it or hung up. Raises OSError."""
    with socket.create_connection(split(place), timeout=_PATIENCE_S) as probe:
        began = perf_counter()
        try:
            probe.sendall(_NO_GREETING)
            said = probe.recv(1)
        except ConnectionResetError:  # it hung up before it read everything
            said = b""
        return said, perf_counter() - began


def are_used() -> bool:
    """Do layers of the present load go to workers?"""
    return bool(_here.used)


def chosen() -> Any:
    """For `llama_model_params.devices`; None leaves the choice to llama.cpp."""
    if not _here.devices:
        return None
    remote = {handle for each in _here.devices.values() for handle in each}
    used = [] if _here.only_here else [handle for place in _here.used for handle in _here.devices[place]]
    own = [handle for handle in _own(("gpu", "igpu")) if handle not in remote]
    listed = (ctypes.c_void_p * (len(used) + len(own) + 1))(*used, *own)
    return ctypes.cast(listed, ctypes.c_void_p)  # it keeps the list


@contextmanager
def only_here() -> Iterator[None]:
    """What is loaded inside stays on this machine: a draft asks for many passes, each a round trip elsewhere."""
    before, _here.only_here = _here.only_here, True
    try:
        yield
    finally:
        _here.only_here = before


def watch(addresses: Collection[object]) -> None:
    """Let the system probe this process's connections to these peers: llama.cpp's own sockets wait for ever."""
    for number in _sockets():
        with suppress(OSError), socket.socket(fileno=os.dup(number)) as connection:
            if connection.getpeername()[:2] in addresses:
                for option in probes():
                    connection.setsockopt(*option)


def work(host: str, port: int, threads: int) -> None:
    """Compute for others until the process ends. Returns only when that can't be; the reason is in the log."""
    if not is_built_in():
        raise NoWorkers
    own = list(_own(("gpu", "igpu"))) or list(_own(("cpu",)))
    text, size = ctypes.c_char_p, ctypes.c_size_t
    kinds = (text, text, size, size, ctypes.POINTER(ctypes.c_void_p))
    start = devices.function("ggml_backend_rpc_start_server", None, *kinds)
    start(f"{host}:{port}".encode(), None, threads, len(own), (ctypes.c_void_p * len(own))(*own))


def _own(kinds: Sequence[str]) -> Iterator[int]:
    for handle, device in zip(devices.handles(), devices.list_devices(), strict=True):
        if device.kind in kinds and device.backend != "RPC":
            yield handle


def _register(place: str) -> tuple[int, ...]:
    known = devices.handles()
    registry = devices.function("ggml_backend_rpc_add_server", ctypes.c_void_p, ctypes.c_char_p)(place.encode())
    if registry is None:
        raise LocalspecError(f"The worker {place} offers no device.", "Start it again.")
    devices.function("ggml_backend_register", None, ctypes.c_void_p)(registry)
    return tuple(handle for handle in devices.handles() if handle not in known)


def _keep_watch(host: str, port: int) -> None:
    """llama.cpp closes a connection that nothing needs, and opens another one later."""
    addresses = {found[4][:2] for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}

    def keep() -> None:
        while True:
            watch(addresses)
            sleep(_LOOK_S)

    threading.Thread(target=keep, daemon=True).start()


def _sockets() -> Iterator[int]:
    for folder in ("/proc/self/fd", "/dev/fd"):
        with suppress(OSError):
            for name in os.listdir(folder):
                with suppress(OSError):
                    if stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                        yield int(name)
            return
