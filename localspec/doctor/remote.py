"""The facts about one worker, printed as one line of JSON: `python -m localspec.doctor.remote HOST:PORT`.

A process of its own, since native code waits for ever for a worker that falls silent, and ends the process when one
breaks off or is of another version.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

from localspec.doctor.facts import Device, Worker


def look(place: str) -> Worker:
    from localspec.errors import LocalspecError
    from localspec.llama import devices, workers

    if trouble := workers.look(place):
        return Worker(place, trouble)
    trip = workers.round_trip(place)
    if not workers.is_built_in():
        return Worker(place, round_trip_s=trip)
    try:
        workers.join((place,))
    except LocalspecError:
        return Worker(place, "offers no device", trip)
    offered = (device for device in devices.list_devices() if device.backend == "RPC")
    found = tuple(Device(**asdict(device)) for device in offered)
    return Worker(place, "" if found else "was taken by somebody else just now", trip, found)


def restored(text: str) -> Worker:
    """What `main` printed, in another process."""
    saved: dict[str, Any] = json.loads(text)
    return Worker(**saved | {"devices": tuple(Device(**each) for each in saved["devices"])})


def main() -> None:
    print(json.dumps(asdict(look(sys.argv[1]))))


if __name__ == "__main__":
    main()
