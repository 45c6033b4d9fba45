"""Runs the service: address, connections, signals. Knows no request."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from localspec.addresses import are_loopback
from localspec.errors import LocalspecError, UsageError

GRACE_S = 10.0  # for the running answer, after a signal
_CONNECTIONS = 256
_HEADER_S, _READER_S = 15.0, 30.0  # for a request to begin, and for a reader to take what it was sent


class Connection(H11Protocol):
    """Ends a connection that never asks anything, and one that takes nothing of what it asked for."""

    _alarm: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._alarm = self.loop.call_later(_HEADER_S, self._unless_it_asked)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_alarm()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_alarm()
        self._alarm = self.loop.call_later(_READER_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_alarm()
        super().resume_writing()

    def _unless_it_asked(self) -> None:
        if self.cycle is None:
            self.transport.abort()

    def _stop_alarm(self) -> None:
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None


class Server(uvicorn.Server):
    """uvicorn's, with signals left to `serving`."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening(host: str, port: int, *, guarded: bool) -> tuple[socket.socket, bool]:
    """A socket that listens, and whether only this machine can reach it. An address that others can reach needs a
    key: `guarded` says that there is one."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise UsageError(f"There is no address {host!r}.", "For example: --host 127.0.0.1") from None
    local = are_loopback(str(address[4][0]) for address in found)
    if not local and not guarded:
        text = f"{host} can be reached by other machines, and nothing would keep them from asking."
        raise UsageError(text, "Name a file with keys: --api-key-file FILE")
    family, kind, protocol, _, address = found[0]
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as error:
        opened.close()
        hint = "Choose another one with --port."
        raise LocalspecError(f"Cannot listen on {host} port {port}: {error.strerror}.", hint) from None
    return opened, local


async def serving(app: ASGIApp, opened: socket.socket, on_signal: Callable[[], Any]) -> None:
    """Serve until a signal comes and the answers at hand are done; a second signal ends it at once. `on_signal` may
    refuse what waits."""
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=int(GRACE_S) + 5,
    )
    server = Server(config)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        if server.should_exit:
            server.force_exit = True
        else:
            server.should_exit = True
            on_signal()

    with _signals(lambda: loop.call_soon_threadsafe(stop)):
        await server.serve(sockets=[opened])


@contextmanager
def _signals(act: Callable[[], Any]) -> Iterator[None]:
    before = {name: signal.signal(name, lambda *_: act()) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in before.items():
            with suppress(ValueError):
                signal.signal(name, handler)
