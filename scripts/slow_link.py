#!/usr/bin/env python3
"""A slow network on one machine: what comes in goes out in the same order, half a round trip later, at any rate.

    python scripts/slow_link.py PORT [PORT ...]

Prints one line with the ports that it listens on, one before each PORT of this machine. A line of input is the added
round trip in milliseconds from then on, and is printed again once it holds. Ends with its input. A process of its
own, so that nobody's work delays more than was asked for.
"""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import SimpleQueue
from time import monotonic, sleep

_CHUNK = 1 << 18


@dataclass(slots=True)
class Link:
    """`round_trip` seconds are added; what is under way keeps the delay that it began with."""

    round_trip: float = 0.0

    def listen(self, port: int) -> int:
        """Carry connections to this port of this machine; returns the port to connect to."""
        listening = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self._accept, args=(listening, port), daemon=True).start()
        return int(listening.getsockname()[1])

    def _accept(self, listening: socket.socket, port: int) -> None:
        while True:
            near, _ = listening.accept()
            try:
                far = socket.create_connection(("127.0.0.1", port))
            except OSError:
                near.close()
                continue
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._carry(near, far)
            self._carry(far, near)

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        under_way: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
        threading.Thread(target=self._take, args=(source, under_way), daemon=True).start()
        threading.Thread(target=_give, args=(sink, under_way), daemon=True).start()

    def _take(self, source: socket.socket, under_way: SimpleQueue[tuple[float, bytes]]) -> None:
        """Each piece is due half a round trip after it arrived, however many are under way. The end is an empty one."""
        data = b"begin"
        while data:
            try:
                data = source.recv(_CHUNK)
            except OSError:  # a peer that hung up with bytes unread
                data = b""
            under_way.put((monotonic() + self.round_trip / 2, data))


def _give(sink: socket.socket, under_way: SimpleQueue[tuple[float, bytes]]) -> None:
    with suppress(OSError):
        while True:
            due, data = under_way.get()
            sleep(max(0.0, due - monotonic()))
            if not data:
                sink.shutdown(socket.SHUT_WR)
                return
            sink.sendall(data)


def main(ports: Sequence[str]) -> None:
    link = Link()
    print(*(link.listen(int(port)) for port in ports), flush=True)
    for line in sys.stdin:
        link.round_trip = float(line) / 1000
        print(line.strip(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
