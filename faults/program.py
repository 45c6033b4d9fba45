"""The real program in a process of its own, with a home of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

PROGRAM = (sys.executable, "-c", "from localspec.cli import main; main()")


def localspec(
    home: Path, *arguments: str, stdin: str = "", seconds: float = 60, **environment: str
) -> tuple[subprocess.CompletedProcess[str], float]:
    """What it did, and how long that took. The environment is `environment` and what it can't do without."""
    began = time.monotonic()
    fixed = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": ""}
    try:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            env={**fixed, **environment},
            cwd=home,
            input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        return subprocess.CompletedProcess(error.cmd, -1, "", "it did not end"), seconds
    out, err = (each.decode("utf-8", "surrogateescape") for each in (done.stdout, done.stderr))
    return subprocess.CompletedProcess(done.args, done.returncode, out, err), time.monotonic() - began
