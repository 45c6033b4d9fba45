"""Who may ask: keys, pages, names and addresses."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from localspec import config, keyfile
from localspec.errors import LocalspecError, UsageError
from localspec.serve.guard import Guard, Rules
from localspec.serve.server import listening

KEY = "0123456789abcdef"
PAGE = "https://example.org"


def ask(
    rules: Rules, headers: Mapping[str, str], *, method: str = "POST", path: str = "/v1/models"
) -> tuple[int, dict[str, str]]:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "path": path, "headers": raw}
    asyncio.run(Guard(PlainTextResponse("in"), rules)(scope, receive, send))
    return sent[0]["status"], {name.decode(): value.decode() for name, value in sent[0]["headers"]}


OPEN, LOCKED = Rules(), Rules(keys=("other-key-other-key", KEY), local=False)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "127.9.9.9", "LOCALHOST:1"])
def test_loopback_names_are_let_in(host: str) -> None:
    assert ask(OPEN, {"Host": host})[0] == 200


@pytest.mark.parametrize("host", ["example.org", "example.org:8080", "localhost.example.org", "10.0.0.1", ""])
def test_other_names_on_loopback_are_some_pages_trick(host: str) -> None:
    assert ask(OPEN, {"Host": host})[0] == 403


@pytest.mark.parametrize("key", [KEY, "other-key-other-key"])
def test_any_of_the_keys_opens(key: str) -> None:
    assert ask(LOCKED, {"Host": "x", "Authorization": f"Bearer {key}"})[0] == 200


@pytest.mark.parametrize(
    "value", ["", "Bearer", f"Bearer {KEY[:-1]}", f"Bearer {KEY}x", f"Basic {KEY}", KEY, "Bearer \xff\xfe"]
)
def test_wrong_keys_are_401_and_say_how(value: str) -> None:
    status, headers = ask(LOCKED, {"Host": "x", "Authorization": value})
    assert status == 401
    assert headers["www-authenticate"] == "Bearer"


def test_health_needs_no_key_and_metrics_do() -> None:
    assert ask(LOCKED, {"Host": "x"}, path="/health")[0] == 200
    assert ask(LOCKED, {"Host": "x"}, path="/metrics")[0] == 401


def test_pages_are_refused_unless_they_are_named() -> None:
    headers = {"Host": "localhost", "Origin": PAGE}
    assert ask(OPEN, headers)[0] == 403
    status, found = ask(Rules(origins=(PAGE,)), headers)
    assert status == 200
    assert found["access-control-allow-origin"] == PAGE


def test_preflight_of_a_named_page_needs_no_key_and_of_another_gets_nothing() -> None:
    rules = Rules(keys=(KEY,), origins=(PAGE,), local=False)
    status, found = ask(rules, {"Host": "x", "Origin": PAGE}, method="OPTIONS")
    assert status == 204
    assert "authorization" in found["access-control-allow-headers"]
    status, found = ask(rules, {"Host": "x", "Origin": "https://other.example"}, method="OPTIONS")
    assert status == 403
    assert "access-control-allow-origin" not in found


def key_file(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "keys"
    file.write_text(text)
    file.chmod(mode)
    return file


def test_keys_are_read_one_a_line(tmp_path: Path) -> None:
    assert keyfile.read(key_file(tmp_path, f"{KEY}\n\n other \n")) == (KEY, "other")


@pytest.mark.skipif(os.name == "nt", reason="there are no such modes")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_key_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(UsageError) as refused:
        keyfile.read(key_file(tmp_path, KEY, mode))
    assert "chmod 600" in refused.value.hint
    assert KEY not in str(refused.value)


@pytest.mark.parametrize("text", ["", "\n \n", "two words", "ключ"])
def test_key_file_without_a_key_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError):
        keyfile.read(key_file(tmp_path, text))


def test_key_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        keyfile.read(tmp_path / "nowhere")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_address_that_others_can_reach_needs_keys(host: str) -> None:
    with pytest.raises(UsageError) as refused:
        listening(host, 0, guarded=False)
    assert "--api-key-file" in refused.value.hint


def test_loopback_needs_none() -> None:
    opened, local = listening("127.0.0.1", 0, guarded=False)
    opened.close()
    assert local


def test_port_that_is_taken_is_said() -> None:
    opened, _ = listening("127.0.0.1", 0, guarded=False)
    with opened, pytest.raises(LocalspecError, match="in use") as refused:
        opened.listen()
        listening("127.0.0.1", opened.getsockname()[1], guarded=False)
    assert "--port" in refused.value.hint


def test_key_of_the_environment_is_sent_and_is_no_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(keyfile.VARIABLE, f" {KEY}\n")
    assert keyfile.own_key(None) == KEY
    assert keyfile.own_key(key_file(tmp_path, "another-key")) == "another-key"
    config.load(env={keyfile.VARIABLE: KEY}, file=tmp_path / "nowhere")
    monkeypatch.setenv(keyfile.VARIABLE, "two words")
    with pytest.raises(UsageError) as refused:
        keyfile.own_key(None)
    assert "two words" not in str(refused.value)
