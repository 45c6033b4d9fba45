"""docs/beyond-one-machine.md: its commands run as they stand, with a tiny model in the place of the demo."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.llama import workers

PAGE = (Path(__file__).parent.parent / "docs" / "beyond-one-machine.md").read_text("utf-8")
PATIENCE_S = 60
BLOCKS = [(kind, text) for kind, text in re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)]
COMMANDS = [line for kind, text in BLOCKS if kind == "sh" for line in re.split(r"\n(?=\S)(?!\})", text.strip())]


@pytest.fixture(scope="module")
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, noise: str) -> dict[str, str]:
    """Where `demo` is the tiny model, and `localspec` and `python` are those of this run."""
    folder = tmp_path_factory.mktemp("home")
    config = folder / "config" / "localspec"
    config.mkdir(parents=True)
    (config / "models.toml").write_text(f'[pairs.demo]\ntarget = {{ path = "{noise}" }}\n')
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LOCALSPEC_", "XDG_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    own = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "PATH": path, "LOCALSPEC_THREADS": "1"}
    return kept | own


@pytest.fixture(scope="module")
def serving(home: dict[str, str], port: int) -> Iterator[None]:
    assert "localspec serve" in COMMANDS
    command = ["localspec", "serve", "--port", str(port)]
    process = subprocess.Popen(command, env=home, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert any("is ready" in line for line in process.stderr)
    yield
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


def run(command: str, home: dict[str, str], port: int) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command.replace(":8080", f":{port}"))
    return subprocess.run(
        words, env=home, input="", capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("curl")])
def test_curl(command: str, home: dict[str, str], port: int, serving: None) -> None:
    done = run(command, home, port)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stdout
    assert done.stdout


def test_the_official_client(home: dict[str, str], port: int, serving: None) -> None:
    [program] = [text for kind, text in BLOCKS if kind == "python"]
    program = program.replace(":8080", f":{port}")
    done = subprocess.run(
        [sys.executable, "-c", program], env=home, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("command", [line for line in COMMANDS if "--server" in line])
def test_a_server_elsewhere(command: str, home: dict[str, str], port: int, serving: None) -> None:
    done = run(command, home, port)
    assert done.returncode == 0, done.stderr


def test_another_address_and_a_file_of_keys(home: dict[str, str], port: int, tmp_path: Path) -> None:
    [make] = [line for line in COMMANDS if "openssl" in line]
    [serve] = [line for line in COMMANDS if "--api-key-file" in line]
    if subprocess.run(make, shell=True, cwd=tmp_path, env=home, check=False).returncode:
        pytest.skip("openssl is not installed")
    words = [*shlex.split(serve), "--port", "0"]
    process = subprocess.Popen(words, cwd=tmp_path, env=home, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    assert "http://0.0.0.0:" in process.stderr.readline()
    process.terminate()
    process.communicate(timeout=PATIENCE_S)


@pytest.mark.skipif(workers.is_built_in(), reason="this build has the backend")
@pytest.mark.parametrize(
    "command", [line for line in COMMANDS if "doctor" not in line and re.search("worker|--rpc", line)]
)
def test_without_the_backend_workers_say_how_to_get_it(command: str, home: dict[str, str], port: int) -> None:
    done = run(command, home, port)
    assert "GGML_RPC=ON" in done.stderr


@pytest.mark.skipif(not workers.is_built_in(), reason="this build has no RPC backend")
def test_a_worker_and_the_same_text(home: dict[str, str], port: int) -> None:
    [work] = [line for line in COMMANDS if line == "localspec worker"]
    [look] = [line for line in COMMANDS if "doctor" in line]
    [ask] = [line for line in COMMANDS if line.startswith("localspec run --rpc")]
    process = subprocess.Popen([*shlex.split(work), "--threads", "1"], env=home, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        assert "Working at" in process.stderr.readline()
        deadline = time.monotonic() + PATIENCE_S
        while workers.look("127.0.0.1:50052") is not None:
            assert time.monotonic() < deadline
        assert "answers in" in run(look, home, port).stdout
        spread = run(f"{ask} --temperature 0", home, port)
        alone = run(f"{ask.replace('--rpc 127.0.0.1:50052', '')} --temperature 0", home, port)
        assert spread.returncode == 0, spread.stderr
        assert spread.stdout == alone.stdout
    finally:
        process.kill()
        process.communicate()
