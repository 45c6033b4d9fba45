"""Clients that go away, send nonsense or never read, and an engine that dies: the server lives on, and nothing leaks.

LOCALSPEC_TEST_SIEGE_S makes the siege as long as you like.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import socket
import threading
import time
from pathlib import Path

import httpx2
import pytest

from tests.serve.conftest import PATIENCE_S, Server, Start, eventually

SIEGE_S = float(os.environ.get("LOCALSPEC_TEST_SIEGE_S", "3"))
CLIENTS = 16
needs_proc = pytest.mark.skipif(not Path("/proc").exists(), reason="looks into /proc")


def request(body: bytes, path: str = "/v1/chat/completions", **headers: str) -> bytes:
    given = {"Host": "localhost", "Content_Type": "application/json", "Content_Length": str(len(body))} | headers
    lines = [f"POST {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in given.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def connection(server: Server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S)


def status(server: Server, raw: bytes) -> int:
    """Of a raw request; 0 where the server just hangs up."""
    with connection(server) as opened:
        opened.sendall(raw)
        line = opened.makefile("rb").readline()
    return int(line.split()[1]) if line else 0


# So that an answer of random weights goes on until the context is full: only bytes, no token that ends it.
ENDLESS = {"logit_bias": {str(token): -1000 for token in (*range(3), *range(259, 265))}}


def long_chat(**fields: object) -> bytes:
    body = {"messages": [{"role": "user", "content": "abc"}], "stream": True, "temperature": 1}
    return json.dumps(body | ENDLESS | fields).encode()


def aborted(server: Server) -> int:
    found = re.search(r'request_success_total\{[^}]*"abort"\} (\d+)', server.get("/metrics").text)
    return int(found[1]) if found else 0


def is_idle(server: Server) -> bool:
    return server.get("/health").json() == {"status": "ok", "running": 0, "waiting": 0}


REFUSED: dict[str, tuple[bytes, int]] = {
    "no json": (request(b"{"), 400),
    "another type": (request(b"{}", Content_Type="text/plain"), 415),
    "compressed": (request(b"{}", Content_Encoding="gzip"), 415),
    "declared too large": (request(b"{}", Content_Length="99999999"), 413),
    "too large": (request(b" " * 70_000), 413),
    "too large in chunks": (
        request(b"", Content_Length="0").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        + b"11170\r\n"
        + b" " * 0x11170
        + b"\r\n0\r\n\r\n",
        413,
    ),
    "no http": (b"hello\r\n\r\n", 400),
    "wrong host": (request(b"{}", Host="example.org"), 403),
    "wrong method": (b"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n", 405),
    "endless header": (b"GET / HTTP/1.1\r\nX: " + b"y" * 100_000, 400),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_requests_get_the_right_status(server: Server, case: str) -> None:
    raw, expected = REFUSED[case]
    assert status(server, raw) == expected
    assert is_idle(server)


def test_client_that_goes_away_ends_its_answer(server: Server) -> None:
    before = aborted(server)
    with connection(server) as opened:
        opened.sendall(request(long_chat()))
        assert opened.recv(10)
    eventually(lambda: is_idle(server))
    assert aborted(server) == before + 1


def test_client_that_goes_away_before_the_whole_answer_ends_it(server: Server) -> None:
    before = aborted(server)
    with connection(server) as opened:
        opened.sendall(request(long_chat(stream=False)))
        eventually(lambda: bool(server.get("/health").json()["running"]))
    eventually(lambda: is_idle(server))
    assert aborted(server) == before + 1


def test_clients_beyond_the_queue_are_told_when_to_come_back(server: Server) -> None:
    opened = [connection(server) for _ in range(4)]  # one is answered, three wait
    for each in opened:
        each.sendall(request(long_chat()))
    eventually(lambda: server.get("/health").json()["waiting"] == 3)
    refused = server.chat()
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    for each in opened:
        each.close()
    eventually(lambda: is_idle(server))


def test_reader_that_never_reads_holds_up_nobody(server: Server) -> None:
    with connection(server) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        opened.sendall(request(long_chat(logprobs=True, top_logprobs=20)))
        assert server.chat(max_tokens=3).status_code == 200


@needs_proc
def test_engine_that_is_killed_ends_the_answer_with_a_sentence_and_comes_back(start: Start) -> None:
    server = start()
    with httpx2.stream("POST", f"{server.url}/v1/chat/completions", json=json.loads(long_chat())) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        os.kill(server.engine, signal.SIGKILL)
        rest = [line for line in lines if line.startswith("data: ")]
    assert "SIGKILL" in json.loads(rest[-1].removeprefix("data: "))["error"]["message"]
    eventually(lambda: server.get("/health").status_code == 200)
    assert server.chat(max_tokens=3).status_code == 200
    assert server.counter("localspec:engine_restarts_total") == 1
    os.kill(server.engine, signal.SIGKILL)
    eventually(lambda: server.get("/health").status_code == 503)
    refused = server.chat()
    assert refused.status_code in (200, 503)  # it may be back already
    eventually(lambda: server.get("/health").status_code == 200)


@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGINT])
def test_signal_lets_the_answer_end(start: Start, by: signal.Signals) -> None:
    server = start()
    body = json.loads(long_chat(max_tokens=60))
    with httpx2.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=PATIENCE_S) as answer:
        lines = answer.iter_lines()
        assert next(lines).startswith("data: ")
        server.process.send_signal(by)
        assert [line for line in lines if line][-1] == "data: [DONE]"
    assert server.process.wait(PATIENCE_S) == 0


def test_file_that_is_no_model_ends_the_server_with_a_sentence(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(AssertionError, match="Cannot load"):
        start(model=str(file))


def besiege(server: Server, seed: int, until: float, seen: list[int]) -> None:
    luck = random.Random(seed)
    while time.monotonic() < until:
        raw, expected = luck.choice([*REFUSED.values(), (request(long_chat(max_tokens=luck.randint(1, 80))), 0)])
        try:
            with connection(server) as opened:
                opened.sendall(raw)
                line = opened.makefile("rb").readline() if luck.random() < 0.7 else b""
                if line and luck.random() < 0.5:
                    while opened.recv(4096) and time.monotonic() < until:
                        pass
        except OSError:  # it hung up on nonsense before the whole of it was sent
            continue
        found = int(line.split()[1]) if line else 0
        if found and expected:
            seen.append(found)
            assert found in (expected, 400), f"{raw[:60]!r}: {found}"
        elif found:
            assert found in (200, 429)


@needs_proc
def test_siege(start: Start) -> None:
    """Many clients with every bad habit. Afterwards it answers as before, with as many descriptors."""
    server = start("--queue", "3", "--max-body", "65536")
    server.chat(max_tokens=3, logprobs=True)
    before, until, seen = server.descriptors, time.monotonic() + SIEGE_S, list[int]()
    failures: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            besiege(server, seed, until, seen)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SIEGE_S + PATIENCE_S)
    assert not failures
    assert seen
    eventually(lambda: is_idle(server))
    eventually(lambda: server.descriptors <= before)
    assert server.chat(max_tokens=3).status_code == 200
    assert server.counter("localspec:engine_restarts_total") == 0
    assert server.close() == 0
    assert "Traceback" not in "".join(server.said)
