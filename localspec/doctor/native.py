"""The facts about llama.cpp, printed as one line of JSON: `python -m localspec.doctor.native`.

A process of its own, since a driver or a processor that a build does not suit can end it.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from localspec.doctor.facts import Build, Device, Measured


def build() -> Build:
    from localspec.engine import numerics
    from localspec.llama import choices, devices, hidden, workers

    versions, found = devices.versions(), devices.list_devices()
    attention = choices.usual(on_gpu=devices.has_gpu(found))
    cores, cpus = devices.physical_cores(), devices.usable_cpus()
    return Build(
        llama_cpp_python=versions.llama_cpp_python,
        llama_cpp=versions.llama_cpp,
        features=features(versions.system_info),
        backends=devices.backends(),
        devices=tuple(Device(**asdict(device)) for device in found),
        cores=choices.threads(None, cores, cpus),
        cpus=cpus,
        missing={name: hidden.missing(name) for name in hidden.FEATURES},
        flash_attn=attention.flash,
        cache_type=attention.k,
        measured=tuple(Measured(**each) for each in numerics.known()),
        rpc=workers.is_built_in(),
    )


def features(system_info: str) -> tuple[str, ...]:
    """What llama.cpp reports as there: "AVX2 = 1"."""
    return tuple(re.findall(r"(\w+) = 1\b", system_info))


def restored(text: str) -> Build:
    """What `main` printed, in another process."""
    saved: dict[str, Any] = json.loads(text)
    lists: dict[str, Any] = {name: tuple(saved[name]) for name in ("features", "backends")}
    lists["devices"] = tuple(Device(**each) for each in saved["devices"])
    lists["measured"] = tuple(Measured(**each) for each in saved["measured"])
    return Build(**saved | lists)


def main() -> None:
    print(json.dumps(asdict(build())))


if __name__ == "__main__":
    main()
