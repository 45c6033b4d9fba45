"""What `localspec doctor` looks at, as plain data: the machine, the build of llama.cpp, the Hub, the folders."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Device:
    """A device that llama.cpp can compute on. Memory in bytes, as it is now."""

    name: str
    description: str
    kind: str  # cpu | gpu | igpu | accelerator | other
    backend: str
    free: int
    total: int


@dataclass(frozen=True, slots=True)
class Measured:
    """What batches of several rows do to the logits of one model, as it was measured here and kept."""

    model: str
    settings: str
    result: str


@dataclass(frozen=True, slots=True)
class Build:
    """llama.cpp as it was built, asked in a process of its own. `missing` says for each drafter that needs hidden
    states why it can't run, None where it can."""

    llama_cpp_python: str
    llama_cpp: str
    features: tuple[str, ...]  # what it uses of this processor
    backends: tuple[str, ...]
    devices: tuple[Device, ...]
    cores: int  # physical, that this process may use; also the number of threads
    cpus: int  # logical
    missing: dict[str, str | None]
    flash_attn: str
    cache_type: str
    measured: tuple[Measured, ...] = ()
    rpc: bool = False  # it can use workers, and be one

    @property
    def gpus(self) -> tuple[Device, ...]:
        return tuple(device for device in self.devices if device.kind in ("gpu", "igpu"))


BROKE_OFF = "broke off, or is of another version of llama.cpp"


@dataclass(frozen=True, slots=True)
class Worker:
    """A machine that --rpc names, asked in a process of its own. A build without RPC can't ask for its `devices`."""

    place: str  # HOST:PORT
    trouble: str = ""  # why it can't be used, behind its name
    round_trip_s: float | None = None
    devices: tuple[Device, ...] = ()


@dataclass(frozen=True, slots=True)
class Card:
    """A graphics card as the system sees it, whatever llama.cpp can do with it."""

    vendor: str  # NVIDIA | AMD | Intel | Apple
    name: str = ""
    driver: bool = True


@dataclass(frozen=True, slots=True)
class Hub:
    endpoint: str
    offline: bool = False
    reachable: bool | None = None  # None: nobody asked
    trouble: str = ""
    token: str = "none"  # where it comes from; the token itself is never looked at


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, which need not be there yet. `free` bytes on its disk."""

    name: str
    path: str
    writable: bool
    free: int


@dataclass(frozen=True, slots=True)
class Terminal:
    tty: bool
    term: str
    colours: int
    columns: int
    rows: int


@dataclass(frozen=True, slots=True)
class Facts:
    system: str  # linux | macos | windows
    os: str
    machine: str
    python: str
    packages: dict[str, str]  # name -> version, empty where it is not installed
    pinned: str  # the llama-cpp-python that localspec names
    build: Build | None  # None: it could not be asked
    trouble: str  # why not
    cards: tuple[Card, ...]
    cpu_flags: tuple[str, ...]  # the instruction sets that matter here, as far as the system names them
    tools: tuple[str, ...]  # compilers on the PATH
    hub: Hub
    places: tuple[Place, ...]
    terminal: Terminal
    drafters: dict[str, str] = field(default_factory=dict)  # of other packages: name -> where it comes from
    workers: tuple[Worker, ...] = ()
