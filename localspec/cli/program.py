"""The program itself: its version, its errors and exit codes. The commands are in the modules beside this one."""

from __future__ import annotations

import io
import sys
from typing import Annotated

import typer

from localspec import __version__
from localspec.chat.text import visible
from localspec.errors import LocalspecError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The console script: every LocalspecError becomes one line, one hint and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # neither a locale nor half a character may end the program
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except LocalspecError as error:
        print(f"localspec: {visible(error.message)}", file=sys.stderr)
        if error.hint:
            print(f"  {visible(error.hint)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # localspec run ... | head
        sys.stderr.close()
        sys.exit(0)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"localspec {__version__}")
        raise typer.Exit


@app.callback()
def localspec(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Chat with GGUF models in the terminal, decoded by an exact speculative loop."""
