"""A server with the OpenAI protocol that plays what it is told: no model, real sockets on loopback."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

Act: TypeAlias = "bytes | Callable[[BaseHTTPRequestHandler], None]"


class StandIn:
    """`pages` are answers to GET, `plays` those to POST, one after the other: (status, headers, what to send)."""

    def __init__(self, owner: str = "somebody", **card: Any) -> None:
        self.pages: dict[str, bytes] = {}
        self.plays: deque[tuple[int, dict[str, str], list[Act]]] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.models([{"id": "m", "object": "model", "owned_by": owner, **card}])
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._http.block_on_close = False
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def models(self, cards: list[dict[str, Any]]) -> None:
        self.pages["/v1/models"] = json.dumps({"object": "list", "data": cards}).encode()

    def play(self, *acts: Act, status: int = 200, **headers: str) -> None:
        self.plays.append((status, headers, list(acts)))

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


def event(**chunk: Any) -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


def said(text: str, **more: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": None}], **more)


def ended(reason: str = "stop", **more: Any) -> bytes:
    return event(choices=[{"index": 0, "delta": {}, "finish_reason": reason}], **more)


DONE = b"data: [DONE]\n\n"


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    handler.connection.shutdown(2)


def wait_for(gate: threading.Event) -> Callable[[BaseHTTPRequestHandler], None]:
    def act(handler: BaseHTTPRequestHandler) -> None:
        gate.wait(60)

    return act


def _handler(server: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.headers.append(dict(self.headers))
            page = server.pages.get(self.path)
            self.send_response(404 if page is None else 200)
            self.end_headers()
            self.wfile.write(page or b"")

        def do_POST(self) -> None:
            server.headers.append(dict(self.headers))
            server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            status, headers, acts = server.plays.popleft()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            try:
                for act in acts:
                    if callable(act):
                        act(self)
                    else:
                        self.wfile.write(act)
                        self.wfile.flush()
            except OSError:
                pass  # the client went away

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
