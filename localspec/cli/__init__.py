"""The command line. Each command imports what it needs, so that `--help` stays as fast as typer."""

from localspec.cli import answering, configuring, files, machine, measuring, replaying, serving, sessions  # noqa: F401  (importing registers them)
from localspec.cli.program import app, main

__all__ = ["app", "main"]
