"""How the doctor looks: at files and programs that the tests make up, at llama.cpp itself, and at a Hub nearby."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from localspec import __version__
from localspec.doctor import gather, hub, native
from localspec.doctor.facts import Card, Hub
from tests.doctor.machines import ON_GPU

SECRET = "hf_" + "s" * 30


class TestLlama:
    def test_this_build_answers_from_another_process(self) -> None:
        build, trouble = gather.ask_llama()
        assert build is not None and trouble == ""
        assert "CPU" in build.backends and build.cores >= 1
        assert build.missing.keys() == {"mtp", "eagle3", "dflash"}
        assert (build.flash_attn, build.cache_type) in {("on", "q8_0"), ("auto", "f16")}

    def test_facts_survive_the_journey(self) -> None:
        assert native.restored(json.dumps(asdict(ON_GPU))) == ON_GPU

    @pytest.mark.parametrize(
        ("code", "trouble"),
        [
            ("import os; os.abort()", "it ended the process: SIGABRT"),
            (
                "raise ImportError('libx.so: cannot open shared object file')",
                "libx.so: cannot open shared object file",
            ),
            ("raise SystemExit(3)", "exit code 3"),
        ],
    )
    def test_a_build_that_dies_is_a_sentence(self, code: str, trouble: str) -> None:
        assert gather.ask_llama((sys.executable, "-c", code)) == (None, trouble)

    def test_features_are_those_that_are_there(self) -> None:
        assert native.features("CPU : AVX = 1 | AVX2 = 0 | AVX512_VNNI = 1 | CUDA : ARCHS = 890") == (
            "AVX",
            "AVX512_VNNI",
        )

    def test_the_version_that_localspec_names(self) -> None:
        named = ["numpy<3", "llama-cpp-python==0.3.36", "x; extra == 'dev'"]
        assert gather.pinned(named) == "0.3.36"
        assert gather.pinned(["llama_cpp_python==1.0; python_version > '3'"]) == "1.0"
        assert gather.pinned(["llama-cpp-python"]) == ""


class TestCards:
    def drm(self, folder: Path, *vendors: str) -> Path:
        for i, vendor in enumerate(vendors):
            (folder / f"card{i}" / "device").mkdir(parents=True)
            (folder / f"card{i}" / "device" / "vendor").write_text(vendor + "\n")
        return folder

    def test_what_nvidia_smi_knows(self, tmp_path: Path) -> None:
        found = gather.linux_cards(self.drm(tmp_path, "0x10de", "0x8086"), tmp_path / "no", ("NVIDIA H200",))
        assert found == (Card("NVIDIA", "NVIDIA H200"), Card("Intel"))

    def test_without_it_the_files_of_the_driver(self, tmp_path: Path) -> None:
        (tmp_path / "0000:01").mkdir()
        (tmp_path / "0000:01" / "information").write_text("Model: \t\t NVIDIA RTX A2000\nIRQ: 7\n")
        assert gather.linux_cards(tmp_path / "no", tmp_path, ()) == (Card("NVIDIA", "NVIDIA RTX A2000"),)

    def test_a_card_of_which_only_the_bus_knows_has_no_driver(self, tmp_path: Path) -> None:
        found = gather.linux_cards(self.drm(tmp_path, "0x10de"), tmp_path / "no", ())
        assert found == (Card("NVIDIA", driver=False),)

    def test_a_machine_without_any(self, tmp_path: Path) -> None:
        assert gather.linux_cards(self.drm(tmp_path, "0x1234"), tmp_path / "no", ()) == ()

    def test_the_names_that_windows_gives(self) -> None:
        said = "NVIDIA GeForce RTX 3060\r\nAMD Radeon(TM) Graphics\r\nMicrosoft Basic Display Adapter\r\n"
        assert gather.named_cards(said) == (
            Card("NVIDIA", "NVIDIA GeForce RTX 3060"),
            Card("AMD", "AMD Radeon(TM) Graphics"),
        )

    def test_instruction_sets_are_whole_words(self, tmp_path: Path) -> None:
        (tmp_path / "cpuinfo").write_text("model name : x\nflags\t\t: fpu avx avx512fx f16c\n")
        assert gather.cpu_flags(tmp_path / "cpuinfo") == ("avx", "f16c")
        assert gather.cpu_flags(tmp_path / "none") == ()


class Answers(BaseHTTPRequestHandler):
    code = 200

    def do_HEAD(self) -> None:
        self.server.seen = str(self.headers)  # type: ignore[attr-defined]
        self.send_response(type(self).code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    monkeypatch.setenv("NO_PROXY", "*")
    made = HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=made.serve_forever)
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


class TestHub:
    def env(self, server: HTTPServer, **more: str) -> dict[str, str]:
        return {"HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}/", "HF_HOME": "/nowhere", **more}

    @pytest.mark.parametrize(("code", "trouble"), [(200, ""), (404, ""), (407, "the proxy asks"), (503, "503")])
    def test_any_answer_of_the_hub_is_one(
        self, server: HTTPServer, monkeypatch: pytest.MonkeyPatch, code: int, trouble: str
    ) -> None:
        monkeypatch.setattr(Answers, "code", code)
        found = hub.ask(self.env(server))()
        assert found.reachable is (not trouble) and trouble in found.trouble
        assert found.endpoint == f"http://127.0.0.1:{server.server_port}"

    def test_a_token_is_named_by_its_place_and_never_sent(self, server: HTTPServer) -> None:
        found = hub.ask(self.env(server, HF_TOKEN=SECRET))()
        assert found.token == "HF_TOKEN"
        assert SECRET not in repr(found) and SECRET not in server.seen  # type: ignore[attr-defined]

    def test_offline_opens_no_socket(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub, "_trouble", lambda endpoint: pytest.fail("asked"))
        found = hub.ask({"HF_HUB_OFFLINE": "1", "HF_HOME": "/nowhere"})()
        assert found == Hub("https://huggingface.co", offline=True)

    def test_nobody_there_is_a_plain_reason(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_PROXY", "*")
        with HTTPServer(("127.0.0.1", 0), Answers) as closed:
            endpoint = f"http://127.0.0.1:{closed.server_port}"
        assert hub.ask({"HF_ENDPOINT": endpoint})().trouble == "Connection refused"

    def test_who_never_answers_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(hub, "LIMIT", 0.01)
        forever = threading.Event()
        monkeypatch.setattr(hub, "_trouble", lambda endpoint: forever.wait(60) and "")
        assert hub.ask({})().trouble == "no answer within 0 seconds"
        forever.set()

    def test_where_a_token_would_come_from(self, tmp_path: Path) -> None:
        home = {"HF_HOME": str(tmp_path)}
        assert hub.token(home) == "none"
        (tmp_path / "token").write_text(SECRET)
        assert hub.token(home) == "stored"
        assert hub.token(home | {"HF_TOKEN_PATH": str(tmp_path / "other")}) == "none"
        assert hub.token(home | {"HUGGING_FACE_HUB_TOKEN": SECRET}) == "HUGGING_FACE_HUB_TOKEN"
        assert hub.token(home | {"HF_TOKEN": " "}) == "stored"


class TestTerminal:
    @pytest.mark.parametrize(
        ("env", "colours"),
        [
            ({"TERM": "xterm"}, 16),
            ({"TERM": "xterm-256color"}, 256),
            ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
            ({"TERM": "xterm-direct"}, 1 << 24),
            ({"WT_SESSION": "1"}, 1 << 24),
            ({"TERM": "dumb", "COLORTERM": "truecolor"}, 0),
            ({"TERM": "xterm", "NO_COLOR": "1"}, 0),
        ],
    )
    def test_colours(self, env: dict[str, str], colours: int) -> None:
        assert gather.colours(env) == colours


def test_the_command(tmp_path: Path) -> None:
    """The program as a user starts it, with all that it asks on this machine."""
    env = os.environ | {"HOME": str(tmp_path), "HF_HUB_OFFLINE": "1", "HF_TOKEN": SECRET}
    program = [sys.executable, "-c", "from localspec.cli import main; main()", "doctor"]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=100, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert f"localspec         {__version__}" in done.stdout
    assert "HF_HUB_OFFLINE is set" in done.stdout and SECRET not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 80 + len(str(tmp_path))  # a path is never broken


def test_it_fails_only_where_llama_cpp_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from localspec.doctor import doctor

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(gather, "ask_llama", lambda: (None, "libx.so is not there"))
    assert doctor(as_json=True) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["build"] is None and "libx.so is not there" in found["gaps"][0]["what"]
