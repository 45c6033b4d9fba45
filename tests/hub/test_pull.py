"""The commands as a user runs them: in processes of their own, with a home of their own."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.hub.conftest import DRAFT, REPO, SECRET, TARGET, finals, parts
from tests.hub.server import Fault, Hub

CATALOGUE = f"""
[pairs.noise]
[pairs.noise.target]
repo = "{REPO}"
file = "{TARGET}"
[pairs.noise.draft]
repo = "{REPO}"
file = "{DRAFT}"

[pairs.other]
[pairs.other.target]
repo = "{REPO}"
file = "{DRAFT}"
"""
MAIN = "from localspec.cli import main; main()"
NO_SOCKETS = """
import sys
def refuse(event, _):
    if event.startswith("socket.") and event not in ("socket.gethostname",):
        raise SystemExit(f"a socket: {event}")
sys.addaudithook(refuse)
"""


class Home:
    """A clean home folder with a pair in its catalogue, and the program in it."""

    def __init__(self, folder: Path, hub: Hub) -> None:
        self.cache = folder / "hub"
        config = folder / ".config" / "localspec"
        config.mkdir(parents=True)
        (config / "models.toml").write_text(CATALOGUE)
        kept = {key: os.environ[key] for key in ("PATH", "LANG", "SYSTEMROOT") if key in os.environ}
        self.env = kept | {"HOME": str(folder), "HF_HOME": str(folder), "HF_ENDPOINT": hub.url, "NO_PROXY": ""}

    def start(self, *words: str, before: str = "", **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", before + MAIN, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.env | env,
        )

    def run(self, *words: str, before: str = "", **env: str) -> tuple[int, str, str]:
        child = self.start(*words, before=before, **env)
        out, err = child.communicate()
        assert "Traceback" not in err
        return child.returncode, out, err


@pytest.fixture
def home(tmp_path: Path, stocked: Hub) -> Home:
    return Home(tmp_path, stocked)


def until(what: Callable[[], bool]) -> None:
    """The test's own time limit ends it."""
    while not what():
        time.sleep(0.01)


@pytest.fixture
def stalled(home: Home, stocked: Hub) -> Iterator[subprocess.Popen[str]]:
    """A pull that has 100,000 bytes and waits for more."""
    stocked.faults.append(Fault(100_000, "stall"))
    child = home.start("pull", "noise", HF_HUB_DOWNLOAD_TIMEOUT="100")
    until(lambda: bool(parts(home.cache)) and parts(home.cache)[0].stat().st_size == 100_000)
    yield child
    child.kill()
    child.communicate()


class TestPull:
    def test_the_plan_then_the_pair(self, home: Home, target: bytes) -> None:
        code, out, err = home.run("pull", "noise")
        assert code == 0
        plan = out.splitlines()
        assert plan[0].split() == ["target", "0.5", "MB", "to", "fetch", f"{REPO}/{TARGET}"]
        assert plan[1].startswith("draft") and "free in" in plan[2]
        assert plan[-1] == "Ready: localspec chat --pair noise"
        assert err.splitlines()[-1].endswith("complete")
        assert (home.cache / "models--owner--Noise-GGUF").exists()
        assert "Nothing to fetch" in home.run("pull", "noise")[1]

    def test_a_dry_run_fetches_nothing(self, home: Home, stocked: Hub) -> None:
        code, out, _ = home.run("pull", "noise", "--dry-run")
        assert (code, "to fetch" in out, home.cache.exists()) == (0, True, False)
        assert not stocked.gets(TARGET)

    def test_json_has_paths_and_digests(self, home: Home, target: bytes) -> None:
        code, out, _ = home.run("pull", "noise", "--json")
        found = json.loads(out)
        assert (code, found["schema"], found["pair"]) == (0, "localspec.pull/1", "noise")
        assert Path(found["files"][0]["path"]).read_bytes() == target
        assert {"role", "repo", "name", "commit", "size", "sha256", "here", "partial"} <= found["files"][0].keys()

    def test_a_file_without_a_pair(self, home: Home) -> None:
        code, out, _ = home.run("pull", f"hf:{REPO}/{DRAFT}")
        assert code == 0
        assert "Ready: localspec chat --target " in out

    def test_killed_it_goes_on(
        self, home: Home, stalled: subprocess.Popen[str], stocked: Hub, target: bytes
    ) -> None:
        stalled.kill()
        stalled.wait()
        assert "0.1 MB here" in home.run("pull", "noise", "--dry-run")[1]
        assert home.run("pull", "noise")[0] == 0
        assert stocked.twice(TARGET, len(target)) == 0
        assert stocked.gets(TARGET)[-1].range == "bytes=100000-"

    def test_ctrl_c_keeps_what_is_there_and_says_how_to_go_on(
        self, home: Home, stalled: subprocess.Popen[str], stocked: Hub, target: bytes
    ) -> None:
        stalled.send_signal(signal.SIGINT)
        _, err = stalled.communicate()
        assert stalled.returncode == 130
        assert "localspec pull noise" in err and "Traceback" not in err
        assert home.run("pull", "noise")[0] == 0
        assert stocked.twice(TARGET, len(target)) == 0

    def test_two_at_once(self, home: Home, stocked: Hub, target: bytes, draft: bytes) -> None:
        children = [home.start("pull", "noise") for _ in range(2)]
        assert [child.communicate()[0].splitlines()[-1] for child in children] == [
            "Ready: localspec chat --pair noise"
        ] * 2
        assert (stocked.sent[TARGET], stocked.sent[DRAFT]) == (len(target), len(draft))

    def test_bars_on_a_terminal(self, home: Home) -> None:
        ours, theirs = pty.openpty()
        child = subprocess.Popen(
            [sys.executable, "-c", MAIN, "pull", "noise"],
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=home.env | {"TERM": "xterm", "COLUMNS": "100"},
        )
        os.close(theirs)
        shown = b""
        try:
            while data := os.read(ours, 4096):
                shown += data
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        assert child.wait() == 0
        assert b"target" in shown and b"draft" in shown and b"100 %" in shown

    def test_offline_no_socket_is_opened(self, home: Home) -> None:
        code, _, err = home.run("pull", "noise", before=NO_SOCKETS, HF_HUB_OFFLINE="1")
        assert code == 1
        assert "HF_HUB_OFFLINE" in err and "a socket" not in err
        assert home.run("pull", "noise")[0] == 0
        code, out, _ = home.run("pull", "noise", before=NO_SOCKETS, HF_HUB_OFFLINE="1")
        assert (code, "Nothing to fetch" in out) == (0, True)
        assert "a socket" in home.run("pull", "noise", before=NO_SOCKETS)[2], "the test sees sockets"

    def test_a_proxy_that_refuses(self, home: Home) -> None:
        with Hub() as proxy:
            proxy.answer_next("/", 407)
            address = proxy.url.replace("//", "//me:passw0rd@")
            code, _, err = home.run("pull", "noise", HTTP_PROXY=address)
        assert (code, len(proxy.requests)) == (1, 1)
        assert "proxy 127.0.0.1" in err and "passw0rd" not in err

    def test_a_proxy_that_is_not_there(self, home: Home) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            code, _, err = home.run("pull", "noise", HTTP_PROXY=f"http://me:passw0rd@{address}")
        assert code == 1
        assert f"through the proxy {address}" in err and "passw0rd" not in err

    @pytest.mark.parametrize("fault", ["gated", "private", "html", "reset", "error"])
    def test_the_token_appears_nowhere(self, fault: str, home: Home, stocked: Hub) -> None:
        if fault in ("gated", "private"):
            setattr(stocked.repositories[REPO], fault, True)
        elif fault == "html":
            stocked.answer_next("/", 200, b"<html>", {"Content-Type": "text/html"})
        elif fault == "error":
            stocked.answer_next("/", 418)
        else:
            stocked.close()
        code, out, err = home.run("pull", "noise", HF_TOKEN=SECRET, HF_HUB_VERBOSITY="debug")
        assert (code, out) == (1, "")
        assert SECRET not in err
        assert len(err.splitlines()) == 2, "a sentence and a hint"

    def test_the_stored_token_is_used(self, home: Home, stocked: Hub) -> None:
        stocked.repositories[REPO].private = True
        stocked.members.add(SECRET)
        Path(home.env["HF_HOME"], "token").write_text(f"{SECRET}\n")
        assert home.run("pull", "noise")[0] == 0

    def test_the_transfer_can_be_left_to_the_hubs_client(self, home: Home) -> None:
        code, out, _ = home.run("pull", "noise", LOCALSPEC_TRANSFER="xet")
        assert (code, out.splitlines()[-1]) == (0, "Ready: localspec chat --pair noise")
        assert home.run("pull", "noise", LOCALSPEC_TRANSFER="pigeon")[0] == 2


class TestScanAndRemove:
    def test_what_is_stored_and_for_which_pair(self, home: Home) -> None:
        home.run("pull", "noise")
        code, out, _ = home.run("scan")
        assert code == 0
        assert f"{REPO}/{TARGET}  (noise)" in out and f"{REPO}/{DRAFT}  (noise, other)" in out

    def test_json(self, home: Home, target: bytes) -> None:
        home.run("pull", "noise")
        found = json.loads(home.run("scan", "--json")[1])
        assert (found["schema"], len(found["files"]), found["partials"]) == ("localspec.scan/1", 2, [])
        assert {"repo", "name", "bytes", "path", "ours", "pairs"} <= found["files"][0].keys()

    def test_partial_files_are_shown_and_can_be_deleted(self, home: Home, stalled: subprocess.Popen[str]) -> None:
        assert "being downloaded" in home.run("scan")[1]
        assert "nothing to delete" in home.run("rm", "--partial", "--yes")[1]
        stalled.kill()
        stalled.wait()
        assert f"{REPO}/{TARGET}  (partial" in home.run("scan")[1]
        assert "0.1 MB freed" in home.run("rm", "--partial", "--yes")[1]
        assert not parts(home.cache)

    def test_a_file_that_another_pair_needs_is_kept(self, home: Home) -> None:
        home.run("pull", "noise")
        code, out, _ = home.run("rm", "noise", "--yes")
        assert code == 0
        assert f"{DRAFT}  (also used by other)" in out and "0.5 MB freed" in out
        assert [Path(name).name for name in finals(home.cache) if name.endswith(".gguf")] == [DRAFT]

    def test_it_asks_first(self, home: Home) -> None:
        home.run("pull", "noise")
        code, out, err = home.run("rm", "noise")
        assert code == 2
        assert "delete" in out and "--yes" in err
        assert len(json.loads(home.run("scan", "--json")[1])["files"]) == 2
