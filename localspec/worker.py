"""`localspec worker`: this machine computes layers of a model that runs on another one."""

from __future__ import annotations

import os
import signal
import sys
import threading

from localspec.addresses import WHY, allow
from localspec.errors import LocalspecError, UsageError


def work(host: str, port: int, threads: int | None, memory: int | None, *, trusted: bool) -> int:
    """Compute for others until Ctrl+C; the exit code."""
    from localspec.llama import workers
    from localspec.llama.devices import physical_cores

    if allow(host, trusted=trusted):
        print(f"localspec: {WHY}", file=sys.stderr)
    if not workers.is_built_in():
        raise workers.NoWorkers
    if memory is not None:
        _limit(memory)
    print(f"localspec: Working at {host}:{port}. Use it with: --rpc {host}:{port}", file=sys.stderr, flush=True)
    # On a thread: while native code waits, the main one hears signals.
    ended = threading.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        signal.signal(name, lambda *_: os._exit(0))
    threading.Thread(target=_serve, args=(host, port, threads or physical_cores(), ended), daemon=True).start()
    ended.wait()
    raise LocalspecError(f"Cannot work at {host}:{port}.", "Is the port taken? Choose another one with --port.")


def _serve(host: str, port: int, threads: int, ended: threading.Event) -> None:
    from localspec.llama import workers

    workers.work(host, port, threads)
    ended.set()


def _limit(memory: int) -> None:
    """No more than this many MiB beside what the process holds already; what is beyond is refused to the client."""
    try:
        import resource
    except ImportError:
        raise UsageError("--memory needs a system that limits processes.", "Leave it out.") from None
    most = _size() + memory * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _size() -> int:
    """Bytes of addresses that this process has; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0
