"""A server on loopback that speaks the OpenAI chat API as far as a benchmark does, as one kind of server or another."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class StandIn:
    kind: str = "openai"
    models: tuple[str, ...] = ("m",)
    pieces: tuple[str, ...] = ("Hel", "lo", " you")
    timings: dict[str, Any] = field(default_factory=dict)
    metrics: list[str] = field(default_factory=list)  # one page after the other, the last one for ever
    status: int = 200  # of an answer
    cut: bool = False  # end in the middle
    error: bool = False  # in the middle of the stream
    asked: list[dict[str, Any]] = field(default_factory=list)
    url: str = ""

    def page(self, path: str) -> str | None:
        match path:
            case "/v1/models":
                return json.dumps({"data": [{"id": name} for name in self.models]})
            case "/props" if self.kind == "llama-server":
                return json.dumps({"build_info": "b1"})
            case "/metrics" if self.kind == "vllm":
                return self.metrics.pop(0) if len(self.metrics) > 1 else self.metrics[0]
            case "/version" if self.kind == "vllm":
                return json.dumps({"version": "0.1"})
        return None

    def stream(self) -> Iterator[dict[str, Any]]:
        for number, piece in enumerate(self.pieces):
            yield {"choices": [{"delta": {"content": piece}}]}
            if number == 1 and self.error:
                yield {"error": {"message": "out of memory"}}
            if number == 1 and self.cut:
                return
        end: dict[str, Any] = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
        yield end | ({"timings": self.timings} if self.timings else {})
        yield {"choices": [], "usage": {"completion_tokens": len(self.pieces), "prompt_tokens": 7}}


@contextmanager
def serving(stand_in: StandIn) -> Iterator[StandIn]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = stand_in.page(self.path)
            self._send(200 if page is not None else 404, page or "{}")

        def do_POST(self) -> None:
            stand_in.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if stand_in.status != 200:
                self._send(stand_in.status, json.dumps({"error": {"message": "the slot is busy"}}))
                return
            self.send_response(200)
            self.end_headers()
            for chunk in stand_in.stream():
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            if not stand_in.cut:
                self.wfile.write(b"data: [DONE]\n\n")

        def _send(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    stand_in.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield stand_in
    finally:
        server.shutdown()
        server.server_close()
