"""Free memory, read from what systems say: files and programs of machines that are not here."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from localspec import config
from localspec.fit import capacity
from localspec.fit.plan import Capacity, Gpu

GIB = 1 << 30
SEEN = (Gpu("MTL0", 10 * GIB, 12 * GIB, True),)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder and no programs at all."""
    monkeypatch.setattr(config, "cache_dir", lambda: tmp_path / "cache")
    monkeypatch.setattr(capacity, "host_memory", lambda: 16 * GIB)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(folder: Path, script: str) -> None:
    program = folder / "bin" / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IEXEC)


def test_nothing_is_known_before_the_first_load() -> None:
    found = capacity.capacity()
    assert found.gpus == () and found.host == 16 * GIB and "first loads" in found.source


def test_what_the_engine_saw_is_kept() -> None:
    capacity.remember(SEEN)
    assert capacity.capacity() == Capacity(SEEN, 16 * GIB, "as the engine last saw them")


def test_it_is_forgotten_when_another_llama_cpp_was_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    capacity.remember(SEEN)
    monkeypatch.setattr(capacity, "_build", lambda: 7)
    assert capacity.last_seen() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"build": 0}', '{"build": BUILD, "gpus": [[1]]}'])
def test_a_damaged_list_is_no_list(folder: Path, text: str) -> None:
    capacity.remember(SEEN)
    (folder / "cache" / "gpus.json").write_text(text.replace("BUILD", str(capacity._build())))
    assert capacity.last_seen() is None


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands for nvidia-smi")
class TestNvidiaSmi:
    def test_it_is_asked_where_it_is_there(self, folder: Path) -> None:
        install(folder, "echo '0, 11000, 12288'; echo '1, 7000, 8192'")
        found = capacity.capacity()
        assert [(gpu.name, gpu.free >> 20, gpu.total >> 20) for gpu in found.gpus] == [
            ("CUDA0", 11000, 12288),
            ("CUDA1", 7000, 8192),
        ]
        assert "nvidia-smi" in found.source

    def test_it_knows_more_than_an_old_list(self, folder: Path) -> None:
        capacity.remember([Gpu("CUDA0", GIB, 12 * GIB)])
        install(folder, "echo '0, 11000, 12288'")
        assert capacity.capacity().gpus[0].free == 11000 << 20

    def test_a_build_that_saw_no_gpu_uses_none(self, folder: Path) -> None:
        capacity.remember(())
        install(folder, "echo '0, 11000, 12288'")
        found = capacity.capacity()
        assert found.gpus == () and "saw no GPU" in found.source

    @pytest.mark.parametrize(
        "script", ["echo 'NVIDIA-SMI has failed'; exit 9", "exit 0", "echo '0, [N/A], [N/A]'", "printf '\\377'"]
    )
    def test_what_it_says_when_it_is_broken_is_no_gpu(self, folder: Path, script: str) -> None:
        install(folder, script)
        assert capacity.capacity().gpus == ()

    def test_it_is_not_waited_for(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        install(folder, "while :; do :; done")
        monkeypatch.setattr(capacity, "_TIMEOUT_S", 0.05)
        assert capacity.capacity().gpus == ()


def linux(folder: Path, available: int, **files: str) -> int:
    """`files` of the control group that this process is in, and of the one at the top."""
    proc, group = folder / "proc", folder / "cgroup"
    (proc / "self").mkdir(parents=True)
    (group / "app").mkdir(parents=True)
    (proc / "meminfo").write_text(f"MemTotal: 999 kB\nMemAvailable: {available} kB\n")
    (proc / "self/cgroup").write_text("0::/app\n")
    for name, text in files.items():
        (group / "app" / name.replace("_", ".", 1)).write_text(text)
    return capacity.linux_memory(proc, group)


def test_linux_says_what_is_available(folder: Path) -> None:
    assert linux(folder, 1000) == 1_024_000


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({"memory_max": "max\n", "memory_current": "1\n"}, 1_024_000),
        ({"memory_max": "500000\n", "memory_current": "100000\n"}, 400_000),
        (
            {
                "memory_max": "500000\n",
                "memory_current": "100000\n",
                "memory_stat": "anon 5\ninactive_file 50000\n",
            },
            450_000,
        ),
        ({"memory_max": "500\n", "memory_current": "900\n"}, 0),
        ({"memory_limit_in_bytes": "500000\n", "memory_usage_in_bytes": "100000\n"}, 400_000),
    ],
)
def test_the_limit_of_a_container_counts(folder: Path, files: dict[str, str], left: int) -> None:
    assert linux(folder, 1000, **files) == left


def test_a_system_without_such_files_says_nothing(folder: Path) -> None:
    assert capacity.linux_memory(folder, folder) == 0


def test_macos_counts_pages_that_nobody_would_miss() -> None:
    text = (
        "Mach Virtual Memory Statistics: (page size of 16384 bytes)\n"
        "Pages free:                               10.\nPages active:                             99.\n"
        "Pages inactive:                            5.\nPages speculative:                         1.\n"
        "Pages purgeable:                           2.\n"
    )
    assert capacity.vm_stat(text) == 16384 * 18
    assert capacity.vm_stat("") == 0


def test_this_machine_says_something() -> None:
    code = "from localspec.fit import capacity; print(capacity.host_memory())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert int(done.stdout) > 1 << 20
