"""`localspec serve`: from settings to a server that runs. The only one here that prints."""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from localspec import keyfile
from localspec.config import log_file
from localspec.engine.messages import Generate, Load
from localspec.engine.process import ProcessClient
from localspec.errors import LocalspecError
from localspec.serve.app import Service
from localspec.serve.desk import Desk
from localspec.serve.guard import Rules
from localspec.serve.replies import Spell
from localspec.serve.server import GRACE_S, listening, serving


@dataclass(frozen=True, slots=True)
class Place:
    """Where to serve, and for whom."""

    host: str
    port: int
    key_file: Path | None = None
    origins: tuple[str, ...] = ()
    queue: int = 16  # requests that may wait
    max_body: int = 2 << 20


def serve(load: Load, name: str, defaults: Generate, place: Place) -> int:
    """Until a signal comes; the exit code. `defaults` is what a request gets that says nothing else."""
    keys = keyfile.read(place.key_file) if place.key_file else ()
    opened, local = listening(place.host, place.port, guarded=bool(keys))
    logging.basicConfig(filename=log_file(), level=logging.WARNING)
    rules = Rules(keys, place.origins, local)
    with opened:
        asyncio.run(_serve(load, name, defaults, place, opened, rules))
    return 0


async def _serve(
    load: Load, name: str, defaults: Generate, place: Place, opened: socket.socket, rules: Rules
) -> None:
    desk = Desk(_connect, load, place.queue)
    service = Service(desk, name, defaults, _spelling, defaults.max_tokens, place.max_body)
    host, port = opened.getsockname()[:2]
    _say(f"Loading {name}. It will answer at http://{f'[{host}]' if ':' in host else host}:{port}/v1")
    working = asyncio.create_task(desk.run())
    closing: list[asyncio.Task[None]] = []

    def on_signal() -> None:
        _say("Stopping: the running answer may end; a second signal stops at once.")
        closing.append(asyncio.create_task(desk.close(GRACE_S)))

    serving_task = asyncio.create_task(serving(service.app(rules), opened, on_signal))
    telling = asyncio.create_task(_tell_ready(desk, name))
    try:
        await asyncio.wait({working, serving_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (*closing, telling, working, serving_task):
            task.cancel()
        await asyncio.gather(*closing, telling, working, serving_task, return_exceptions=True)
    for task in (working, serving_task):
        if not task.cancelled() and (error := task.exception()):
            raise error
    if failure := desk.failure:
        error = LocalspecError(failure.message, failure.hint)
        error.exit_code = failure.exit_code
        raise error


async def _tell_ready(desk: Desk, name: str) -> None:
    while desk.ready is None:
        await asyncio.sleep(0.05)
    _say(f"{name} is ready.")


def _connect(wake: Callable[[], None]) -> ProcessClient:
    return ProcessClient(log_file(), wake)


def _spelling(path: str) -> Spell:
    """The bytes of each token, from the file's vocabulary."""
    from localspec.llama.load import load_vocab

    vocab = load_vocab(path)
    pieces = vocab.spellings
    vocab.close()
    return pieces.__getitem__


def _say(text: str) -> None:
    print(f"localspec: {text}", file=sys.stderr, flush=True)
