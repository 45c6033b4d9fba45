"""The slow network of scripts/bench_rpc.py: everything arrives, in order, and not before its time."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "slow_link.py"
ROUND_TRIP_S = 0.2


@pytest.fixture
def echo() -> Iterator[int]:
    """Sends back what comes, until the other side has ended."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            opened, _ = listening.accept()
            with opened:
                while data := opened.recv(1 << 16):
                    opened.sendall(data)

        threading.Thread(target=serve, daemon=True).start()
        yield int(listening.getsockname()[1])


@pytest.fixture
def link(echo: int) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    command = [sys.executable, str(SCRIPT), str(echo)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield int(process.stdout.readline()), process
        process.kill()


def test_a_round_trip_takes_what_was_asked_for_and_pieces_do_not_queue_for_it(
    link: tuple[int, subprocess.Popen[str]],
) -> None:
    port, process = link
    assert process.stdin is not None and process.stdout is not None
    print(1000 * ROUND_TRIP_S, file=process.stdin, flush=True)
    assert float(process.stdout.readline()) == 1000 * ROUND_TRIP_S
    sent = [f"{i:04}".encode() for i in range(500)]
    with socket.create_connection(("127.0.0.1", port)) as near:
        began = time.monotonic()
        for each in sent:
            near.sendall(each)
            time.sleep(0.0005)
        near.shutdown(socket.SHUT_WR)
        first = near.recv(4)
        took = time.monotonic() - began
        rest = b"".join(iter(lambda: near.recv(1 << 16), b""))
    assert took >= ROUND_TRIP_S
    assert first + rest == b"".join(sent)
