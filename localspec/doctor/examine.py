"""From facts to what is missing: what, with which consequence, and the command that mends it on this system.

Pure functions over facts.py: every machine can be described in a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from localspec.addresses import is_loopback_name, split
from localspec.doctor.facts import BROKE_OFF, Build, Card, Facts, Terminal, Worker

LITTLE = 5_000_000_000  # bytes on a disk that a small pair with its cache needs
SMALLEST = (60, 16)  # columns and rows of a terminal in which the chat can be read
_SWITCHES = {"CUDA": "GGML_CUDA", "Vulkan": "GGML_VULKAN", "MTL": "GGML_METAL"}  # a new build must not lose these


@dataclass(frozen=True, slots=True)
class Gap:
    what: str
    consequence: str
    command: str  # for the shell of this system
    first: str = ""  # what that needs, if it is not there


def gaps(facts: Facts) -> tuple[Gap, ...]:
    return tuple(_gaps(facts))


def _gaps(facts: Facts) -> Iterator[Gap]:
    build = facts.build
    if build is None:
        yield Gap(
            f"llama.cpp does not start: {facts.trouble}.",
            "No model can be loaded.",
            reinstall(facts),
        )
    else:
        yield from _graphics(facts, build)
        yield from _processor(facts, build)
        yield from _drafters(facts, build)
        yield from _workers(facts, build)
    yield from _surroundings(facts)


def reinstall(facts: Facts, *switches: str) -> str:
    """Build llama-cpp-python anew, with these switches of CMake."""
    version = f"=={facts.pinned}" if facts.pinned else ""
    pip = f"pip install --force-reinstall --no-cache-dir llama-cpp-python{version}"
    if not switches:
        return pip
    arguments = " ".join(f"-D{switch}" for switch in switches)
    if facts.system == "windows":  # PowerShell
        return f'$env:CMAKE_ARGS = "{arguments}"\n{pip}'
    return f'CMAKE_ARGS="{arguments}" \\\n  {pip}'


def _graphics(facts: Facts, build: Build) -> Iterator[Gap]:
    """A card that is there and not used: the classic one."""
    names = {card.vendor: card for card in reversed(facts.cards)}
    if (card := names.get("NVIDIA")) and not build.gpus:
        yield _nvidia(facts, build, card)
    elif "Apple" in names and not build.gpus:
        yield _unused(facts, "The GPU of this Mac", "GGML_METAL=on", _lacks(facts, "clang++", "Apple's compilers"))
    elif (card := names.get("AMD") or _arc(names.get("Intel"))) and not build.gpus:
        what = f"The {card.name or card.vendor + ' graphics card'}"
        yield _unused(facts, what, "GGML_VULKAN=on", _lacks(facts, "glslc", "the Vulkan SDK"))


def _arc(card: Card | None) -> Card | None:
    """Intel's graphics inside a processor share its memory and gain nothing; a card of its own does."""
    return card if card and "arc" in card.name.lower().split() else None


def _nvidia(facts: Facts, build: Build, card: Card) -> Gap:
    name = card.name or "NVIDIA graphics card"
    if not card.driver:
        return Gap(
            f"The {name} has no driver.",
            "llama.cpp can't use it: models run on the processor, several times slower.",
            "nvidia-smi",
            "Install NVIDIA's driver with the tools of your system; then this command lists the card.",
        )
    if "CUDA" in build.backends:
        return Gap(
            f"llama.cpp was built with CUDA, but does not see the {name}.",
            "Models run on the processor, several times slower.",
            "nvidia-smi",
            "The driver must be as new as the CUDA of the build, and CUDA_VISIBLE_DEVICES must not hide the card.",
        )
    return _unused(facts, f"The {name}", "GGML_CUDA=on", _lacks(facts, "nvcc", "the CUDA toolkit"))


def _unused(facts: Facts, what: str, switch: str, first: str) -> Gap:
    return Gap(
        f"{what} is not used: this llama.cpp was built for the processor only.",
        "Models run several times slower than they could, and large ones not at all.",
        reinstall(facts, switch),
        first,
    )


def _lacks(facts: Facts, tool: str, product: str) -> str:
    missing = [] if tool in facts.tools else [f"{product} ({tool} is not on the PATH)"]
    if not {"c++", "g++", "clang++", "cl"} & set(facts.tools) and tool != "clang++":
        missing.append("a C++ compiler")
    if not missing:
        return ""
    if facts.system == "macos":
        return "It needs Apple's compilers first: xcode-select --install"
    return f"It needs {' and '.join(missing)} first."


def _processor(facts: Facts, build: Build) -> Iterator[Gap]:
    names = {"f16c": "F16C", "fma": "FMA", "avx": "AVX", "avx2": "AVX2", "avx512f": "AVX512"}
    unused = [names[flag] for flag in facts.cpu_flags if names[flag] not in build.features]
    if unused and not build.gpus:
        yield Gap(
            f"This processor has {', '.join(unused)}, and llama.cpp was built without.",
            "Models run slower than they could.",
            reinstall(facts, "GGML_NATIVE=on"),
            "" if {"c++", "g++", "clang++", "cl"} & set(facts.tools) else "It needs a C++ compiler first.",
        )


def _drafters(facts: Facts, build: Build) -> Iterator[Gap]:
    other = facts.pinned and build.llama_cpp_python != facts.pinned
    if other:
        yield Gap(
            f"llama-cpp-python is {build.llama_cpp_python}; localspec was written for {facts.pinned}.",
            "Its structures change between releases: loading may fail, or end the process.",
            reinstall(facts),
        )
    missing = {name: reason for name, reason in build.missing.items() if reason}
    if missing:
        yield Gap(
            f"{next(iter(missing.values()))}.",
            f"Switched off: {', '.join(missing)}. Everything else works.",
            reinstall(facts),
        )


def _workers(facts: Facts, build: Build) -> Iterator[Gap]:
    """Of those that --rpc names; who names none misses nothing."""
    if facts.workers and not build.rpc:
        present = [f"{_SWITCHES[name]}=on" for name in build.backends if name in _SWITCHES]
        yield Gap(
            "This build of llama.cpp has no RPC backend.",
            "No worker can be used.",
            reinstall(facts, *present, "GGML_RPC=on"),
        )
    for worker in facts.workers:
        if worker.trouble:
            yield _worker(facts, worker)


def _worker(facts: Facts, worker: Worker) -> Gap:
    host, port = split(worker.place)
    here = is_loopback_name(host)
    first = "A worker works for one at a time. " + (
        "If there is none:" if here else "If there is none, on its machine:"
    )
    command = f"localspec worker --port {port}" if here else f"localspec worker --host {host} --port {port}"
    if worker.trouble == BROKE_OFF:
        first, command = "On both machines, the same version:", reinstall(facts, "GGML_RPC=on")
    elif not here:
        command += " --i-trust-this-network"
    return Gap(f"The worker {worker.place} {worker.trouble}.", "Its layers are put elsewhere.", command, first)


def _surroundings(facts: Facts) -> Iterator[Gap]:
    hub = facts.hub
    if hub.reachable is False:
        yield Gap(
            f"{hub.endpoint} can't be reached: {hub.trouble}.",
            "No model can be downloaded; those that are here work.",
            setting(facts, "HTTPS_PROXY", "http://PROXY:PORT"),
            "Behind a proxy, name it; a mirror of the Hub is named in HF_ENDPOINT.",
        )
    for place in facts.places:
        if not place.writable:
            yield Gap(
                f"The {place.name} folder can't be written: {place.path}.",
                "Models can't be downloaded to it." if place.name == "models" else "Nothing is kept there.",
                setting(facts, *_elsewhere(place.name)),
            )
        elif place.name == "models" and place.free < LITTLE:
            yield Gap(
                f"The disk of the models has {place.free / 1e9:.1f} GB left.",
                "Most pairs don't fit on it.",
                setting(facts, "HF_HOME", "FOLDER-ON-A-LARGER-DISK"),
            )
    yield from _terminal(facts, facts.terminal)


def _elsewhere(name: str) -> tuple[str, str]:
    variables = {"config": "XDG_CONFIG_HOME", "data": "XDG_DATA_HOME", "cache": "XDG_CACHE_HOME"}
    return ("HF_HOME" if name == "models" else variables.get(name, "XDG_STATE_HOME")), "A-FOLDER-OF-YOURS"


def _terminal(facts: Facts, terminal: Terminal) -> Iterator[Gap]:
    if not terminal.tty:
        return
    if terminal.term == "dumb":
        yield Gap(
            "This terminal can't place text (TERM is dumb).",
            "The chat goes line by line.",
            setting(facts, "TERM", "xterm-256color"),
        )
    elif terminal.columns < SMALLEST[0] or terminal.rows < SMALLEST[1]:
        yield Gap(
            f"This terminal has {terminal.columns} columns and {terminal.rows} rows.",
            f"The chat needs about {SMALLEST[0]} by {SMALLEST[1]}.",
            "localspec chat --plain",
        )


def setting(facts: Facts, variable: str, value: str) -> str:
    return f'$env:{variable} = "{value}"' if facts.system == "windows" else f"export {variable}={value}"
