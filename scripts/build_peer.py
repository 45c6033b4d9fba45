#!/usr/bin/env python3
"""Build llama-server once, from the sources inside the source distribution of the installed llama-cpp-python, so that
it is the same llama.cpp that localspec runs on. It goes to localspec's cache folder; about 10 minutes on 2 cores.

Usage: python scripts/build_peer.py        (prints the path; needs cmake and a C++ compiler)
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from importlib.metadata import version
from pathlib import Path

from localspec import config

FLAGS = (
    *("-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Release"),
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",  # it finds its libraries beside it, wherever it is kept
)


def place(release: str) -> Path:
    return config.cache_dir() / "peer" / release / "llama-server"


def main() -> None:
    release = version("llama-cpp-python")
    target = place(release)
    if not target.exists():
        cmake = shutil.which("cmake")
        if cmake is None:
            raise SystemExit("cmake is not here: install it, for example with pip install cmake")
        with tempfile.TemporaryDirectory() as folder:
            built = build(cmake, sources(release, Path(folder)))
            part = target.parent.with_name(f"{release}.part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(built.parent, part, symlinks=True)  # with its libraries
            part.replace(target.parent)
    print(target)


def sources(release: str, folder: Path) -> Path:
    """llama.cpp's own tree."""
    words = ("download", "--quiet", "--no-deps", "--no-binary", "llama-cpp-python", "--dest", str(folder))
    run(sys.executable, "-m", "pip", *words, f"llama-cpp-python=={release}")
    archive = next(folder.glob("*.tar.gz"), None)
    if archive is None:
        raise SystemExit(f"pip brought no source distribution of llama-cpp-python {release}")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return next(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))


def build(cmake: str, tree: Path) -> Path:
    run(cmake, "-S", str(tree), "-B", str(tree / "build"), *FLAGS, *os.environ.get("CMAKE_ARGS", "").split())
    jobs = str(os.cpu_count() or 1)
    run(cmake, "--build", str(tree / "build"), "--target", "llama-server", "--parallel", jobs)
    return next((tree / "build").rglob("llama-server"))


def run(*words: str) -> None:
    print("+", *words, file=sys.stderr)
    try:
        subprocess.run(words, check=True, stdout=sys.stderr)
    except subprocess.CalledProcessError as error:
        raise SystemExit(f"that ended with code {error.returncode}") from None


if __name__ == "__main__":
    main()
