"""The command line. Each command imports what it needs, so that `--help` stays as fast as typer."""

from localspec.cli import answering, configuring, files, machine  # noqa: F401  (importing them registers their commands)
from localspec.cli.program import app, main

__all__ = ["app", "main"]
