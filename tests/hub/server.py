"""A Hub on the loopback: what the real client asks of huggingface.co, and the ways in which a download goes wrong.

    with Hub() as hub:
        hub.add("owner/name", "model.gguf", data)
        ...  # HF_ENDPOINT=hub.url

`hub.requests` is what was asked. `hub.sent` counts the bytes of bodies that were really written to a socket: with it
a test sees how much was sent twice. Every `add` makes a new commit of the repository.
"""

from __future__ import annotations

import json
import re
import select
import socket
import threading
from collections import Counter, deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from hashlib import sha1, sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

PIECE = 16 << 10


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    headers: Message

    @property
    def token(self) -> str | None:
        return self.headers.get("Authorization")

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")


@dataclass
class Repository:
    files: dict[str, bytes] = field(default_factory=dict)
    commit: str = ""
    commits: set[str] = field(default_factory=set)
    private: bool = False
    gated: bool = False
    lfs: bool = True


@dataclass(frozen=True)
class Fault:
    """The body of the next file that is sent ends after `at` of its bytes: the connection is closed, or silent."""

    at: int
    how: Literal["cut", "stall"]


@dataclass(frozen=True)
class Canned:
    """The next request whose path holds `within` is answered with this."""

    within: str
    status: int
    headers: Mapping[str, str]
    body: bytes


class Hub:
    """`members` are the tokens that may read private repositories; `accepted` those that accepted the terms of gated
    ones. Set `cdn` to another Hub to have the bytes sent from there, as the real one does."""

    def __init__(self) -> None:
        self.repositories: dict[str, Repository] = {}
        self.requests: list[Request] = []
        self.sent: Counter[str] = Counter()
        self.faults: deque[Fault] = deque()
        self.canned: deque[Canned] = deque()
        self.members: set[str] = set()
        self.accepted: set[str] = set()
        self.cdn: Hub | None = None
        self.ranges = True  # False: a range request gets everything, with status 200
        self.etag_suffix = ""  # of the entity tags: set it, and they are others than before
        self.connections: list[socket.socket] = []
        self.stalled = threading.Event()
        self._ended = threading.Event()
        hub = self

        class Handler(_Handler):
            pass

        Handler.hub = hub
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._server.server_close()
        for connection in self.connections:  # those that a client keeps for later
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def add(self, repo: str, name: str, data: bytes, **facts: bool) -> str:
        """Put a file into a repository, made with `facts` (private, gated, lfs); returns its blob's name."""
        repository = self.repositories.setdefault(repo, Repository())
        for key, value in facts.items():
            setattr(repository, key, value)
        repository.files[name] = data
        content = "".join(f"{name}:{sha1(data).hexdigest()}" for name, data in sorted(repository.files.items()))
        repository.commit = sha1(content.encode()).hexdigest()
        repository.commits.add(repository.commit)
        return identity(repository, data)

    def answer_next(
        self, within: str, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None, times: int = 1
    ) -> None:
        self.canned.extend([Canned(within, status, headers or {}, body)] * times)

    def gets(self, name: str) -> list[Request]:
        """The requests for the bytes of a file at the Hub itself."""
        return [each for each in self.requests if each.method == "GET" and each.path.endswith(f"/{name}")]

    def twice(self, name: str, size: int) -> int:
        """How many bytes of a file of `size`, which was fetched once, were sent more than once."""
        return self.sent[name] - size


def identity(repository: Repository, data: bytes) -> str:
    return sha256(data).hexdigest() if repository.lfs else sha1(b"blob %d\0" % len(data) + data).hexdigest()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def setup(self) -> None:
        super().setup()
        self.hub.connections.append(self.connection)

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append(Request(self.command, path, self.headers))
        canned = next((each for each in self.hub.canned if each.within in path), None)
        if canned:
            self.hub.canned.remove(canned)
            self._reply(canned.status, canned.body, canned.headers)
        elif match := re.fullmatch(
            r"/api/models/([^/]+/[^/]+)(?:/(revision)/(.+)|/(auth-check)|/(tree)/.+)?", path
        ):
            self._about(match[1], match[2] and match[3], auth_check=bool(match[4]), tree=bool(match[5]))
        elif match := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self._resolve(match[1], match[2], match[3])
        elif match := re.fullmatch(r"/cdn/([^/]+/[^/]+)/(.+)", path):
            repository = self.hub.repositories[match[1]]
            self._file(repository, match[2], {})
        else:
            self._reply(404)

    def _about(self, repo: str, revision: str | None, *, auth_check: bool, tree: bool) -> None:
        repository = self._readable(repo, files=auth_check)
        if repository is None:
            return
        if revision not in (None, "main", *repository.commits):
            self._refuse(404, "RevisionNotFound")
            return
        names = repository.files.items()
        if tree:
            self._json([{"type": "file", "path": n, "size": len(d), **_lfs(repository, d)} for n, d in names])
            return
        siblings = [
            {"rfilename": n, "size": len(d), "blobId": sha1(b"blob %d\0" % len(d) + d).hexdigest()}
            | _lfs(repository, d)
            for n, d in names
        ]
        facts = {"id": repo, "sha": repository.commit, "private": repository.private, "disabled": False}
        gated = "manual" if repository.gated else False
        self._json(facts | {"gated": gated, "downloads": 0, "likes": 0, "tags": [], "siblings": siblings})

    def _resolve(self, repo: str, revision: str, name: str) -> None:
        repository = self._readable(repo, files=True)
        if repository is None:
            return
        commit = {"X-Repo-Commit": repository.commit}
        if revision not in ("main", *repository.commits):
            self._refuse(404, "RevisionNotFound")
        elif name not in repository.files:
            self._refuse(404, "EntryNotFound", commit)
        elif self.hub.cdn:
            data = repository.files[name]
            linked = {"X-Linked-Etag": f'"{identity(repository, data)}"', "X-Linked-Size": str(len(data))}
            location = {"Location": f"{self.hub.cdn.url}/cdn/{repo}/{name}?signature=s3cret"}
            self._reply(302, headers=commit | linked | location)
        else:
            self._file(repository, name, commit)

    def _readable(self, repo: str, *, files: bool) -> Repository | None:
        """Refuses as the Hub does: a private repository looks like one that isn't there."""
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        repository = self.hub.repositories.get(repo)
        if token == "expired":
            message = {"X-Error-Message": "Invalid credentials in Authorization header"}
            self._reply(401, headers=message)
        elif repository is None or (repository.private and token not in self.hub.members):
            self._refuse(404 if token else 401, "RepoNotFound")
        elif repository.gated and files and token not in self.hub.accepted:
            self._refuse(403 if token else 401, "GatedRepo")
        else:
            return repository
        return None

    def _file(self, repository: Repository, name: str, headers: Mapping[str, str]) -> None:
        data = repository.files[name]
        etag = f'"{identity(repository, data)}{self.hub.etag_suffix}"'
        start, status = self._start(etag), 200
        facts = {**headers, "ETag": etag, "Accept-Ranges": "bytes"}
        if start >= len(data) > 0:
            self._reply(416, headers={"Content-Range": f"bytes */{len(data)}"})
            return
        if start:
            status = 206
            facts["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._head(status, len(data) - start, facts)
        if self.command == "GET":
            self._body(name, data, start)

    def _start(self, etag: str) -> int:
        match = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        tied = self.headers.get("If-Range")
        return int(match[1]) if match and self.hub.ranges and tied in (None, etag) else 0

    def _body(self, name: str, data: bytes, start: int) -> None:
        fault = self.hub.faults.popleft() if self.hub.faults else None
        end = min(fault.at, len(data)) if fault else len(data)
        try:
            for at in range(start, end, PIECE):
                piece = data[at : min(at + PIECE, end)]
                self.wfile.write(piece)
                self.hub.sent[name] += len(piece)
        except OSError:  # the client has gone
            self.close_connection = True
            return
        if fault and fault.how == "stall":
            self._be_silent()
        if fault:
            self.close_connection = True

    def _be_silent(self) -> None:
        """Until the client gives up or the test ends."""
        self.hub.stalled.set()
        while not self.hub._ended.is_set():
            readable, _, _ = select.select([self.connection], [], [], 0.02)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                return

    def _refuse(self, status: int, code: str, headers: Mapping[str, str] | None = None) -> None:
        self._reply(status, b"", {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})})

    def _json(self, facts: Any) -> None:
        self._reply(200, json.dumps(facts).encode(), {"Content-Type": "application/json"})

    def _reply(self, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
        self._head(status, len(body), headers or {})
        if self.command == "GET":
            self.wfile.write(body)

    def _head(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in {"Content-Length": str(length), **headers}.items():
            self.send_header(key, value)
        self.end_headers()


def _lfs(repository: Repository, data: bytes) -> dict[str, Any]:
    if not repository.lfs:
        return {"oid": identity(repository, data)}
    found = sha256(data).hexdigest()
    return {"lfs": {"sha256": found, "oid": found, "size": len(data), "pointerSize": 130}}
