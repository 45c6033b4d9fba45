"""From nothing to a running pair on a real terminal: a clean home, a Hub on the loopback, a tiny real pair."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import Models
from tests.hub.conftest import DRAFT, REPO, TARGET, hub, parts  # noqa: F401
from tests.hub.server import Fault, Hub
from tests.terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.timeout(240)]

PAIR = f"""
[pairs.tiny]
title = "Tiny noise"
licence = "Apache-2.0"
methods = ["draft", "lookup"]
target = {{ repo = "{REPO}", file = "{TARGET}", kv_bytes_per_token = 256 }}
draft = {{ repo = "{REPO}", file = "{DRAFT}", kv_bytes_per_token = 256 }}
"""


@pytest.fixture
def home(tmp_path: Path, hub: Hub, models: Models, monkeypatch: pytest.MonkeyPatch) -> Path:  # noqa: F811
    hub.add(REPO, TARGET, Path(models("noise")).read_bytes())
    hub.add(REPO, DRAFT, Path(models("noise_q8")).read_bytes())
    for name in ("HF_HOME", "HF_HUB_CACHE", "OLLAMA_MODELS"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / ".config" / "localspec"
    folder.mkdir(parents=True)
    (folder / "models.toml").write_text(PAIR)
    (folder / "config.toml").write_text("threads = 1\nn_ctx = 512\nmax_tokens = 8\n")
    return tmp_path


class Sessions:
    """One program after the other on terminals of their own."""

    def __init__(self, home: Path) -> None:
        self._home, self._opened = home, list[Terminal]()

    def __call__(self, *arguments: str, columns: int = 110, lines: int = 32) -> Terminal:
        self._opened.append(Terminal(arguments, self._home, columns, lines))
        return self._opened[-1]

    def close(self) -> None:
        for each in self._opened:
            each.close()


@pytest.fixture
def start(home: Path) -> Iterator[Sessions]:
    sessions = Sessions(home)
    yield sessions
    sessions.close()


def answered(screen: str) -> bool:
    """However long it is: the noise may end at any token."""
    return re.search(r"\d tokens? · ", screen) is not None


def test_list_pull_chat(start: Sessions, home: Path) -> None:
    listed = start("models", lines=50)
    listed.until("Fetch: localspec pull")
    assert listed.wait() == 0
    assert next(line for line in listed.text.splitlines() if line.startswith("tiny ")).split()[-2:] != [
        "yes",
        "yes",
    ]
    pulled = start("pull", "tiny")
    pulled.until("Ready: localspec chat --pair tiny")
    assert pulled.wait() == 0
    again = start("models", lines=50)
    again.until("Fetch: localspec pull")
    assert " yes " in next(line for line in again.text.splitlines() if line.startswith("tiny "))
    chat = start("chat", "--pair", "tiny")
    chat.until("Tiny noise  +  auto")
    chat.type("Hello?\r")
    chat.until(answered, "an answer")
    chat.type("\x11")
    assert chat.wait() == 0


def test_a_newcomer_types_chat_picks_a_pair_watches_it_download_and_talks(
    start: Sessions,
    home: Path,
    hub: Hub,  # noqa: F811
    models: Models,
) -> None:
    size = Path(models("noise")).stat().st_size
    hub.faults.append(Fault(size // 2, "stall"))
    chat = start("chat", "--pair", "tiny")
    chat.until("Tiny noise, ", "the pair that was asked for")
    chat.type("\x1b[B\r")
    chat.until("Models")
    chat.until("↓ fetch")
    chat.type("\r")
    chat.until("Enter fetches it")
    chat.type("\r")
    chat.until("fetching")
    assert hub.stalled.wait(60)
    chat.type("c")
    chat.until("stopped · Enter goes on")
    (part,) = parts(home / ".cache" / "huggingface" / "hub")
    kept = part.stat().st_size
    chat.type("\r")
    chat.until("here · Enter loads it")
    assert hub.gets(TARGET)[-1].range == f"bytes={kept}-"
    chat.type("\r")
    chat.until("draft: the same vocabulary")
    chat.until(lambda screen: "checking" not in screen, "the verdicts")
    chat.type("\r")
    chat.until("Tiny noise  +  auto")
    chat.type("Hello?\r")
    chat.until(answered, "an answer")
    chat.type("\x1bOQ")  # F2
    chat.until("loaded")
    chat.resize(60, 15)
    chat.until(lambda screen: "loaded" in screen and "DRAFTS WITH" not in screen, "a narrow list")
    chat.type("\x1bOQ\x11")
    assert chat.wait() == 0
    assert "Traceback" not in chat.text


def test_without_a_screen_it_is_one_line_and_what_to_do(start: Sessions, home: Path) -> None:
    plain = start("chat", "--pair", "tiny", "--plain")
    assert plain.wait() == 1
    plain.until(f"localspec: {REPO}/{TARGET} is not on this machine.")
    plain.until("Run: localspec pull tiny")
    assert "Welcome" not in plain.text
