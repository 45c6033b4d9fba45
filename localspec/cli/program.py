"""The program itself: its version, its errors and exit codes. The commands are in the modules beside this one."""

from __future__ import annotations

import io
import os
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


class _Terminal(io.TextIOWrapper):
    """Standard output on a terminal: whoever prints, nothing in it acts. (Screens and bars draw elsewhere.)"""

    def write(self, text: str, /) -> int:
        super().write(visible(text))
        return len(text)


def main() -> None:
    """The console script: every LocalspecError becomes one line, one hint and an exit code."""
    _hold_streams()
    try:
        _require_folder()
        app()
    except LocalspecError as error:
        _fail(error.message, error.hint, error.exit_code)
    except BrokenPipeError:  # localspec run ... | head
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:  # no more files, no more processes: the system's own reason will do
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        _fail(f"The system refuses: {where}{error.strerror or error}.", "", 1)


def _require_folder() -> None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise LocalspecError("The current folder is gone.", "Change to another one.") from None


def _hold_streams() -> None:
    """What is closed would be taken by the next file that is opened; neither a locale nor half a character may end
    the program."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - for good
        elif isinstance(stream, io.TextIOWrapper) and mode == "w":
            stream.reconfigure(errors="backslashreplace")
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.isatty():
        out = open(sys.stdout.fileno(), "wb", closefd=False)  # noqa: SIM115 - for good
        sys.stdout = _Terminal(out, sys.stdout.encoding, "backslashreplace", line_buffering=True)


def _fail(message: str, hint: str, exit_code: int) -> None:
    print(f"localspec: {visible(message)}", file=sys.stderr)
    if hint:
        print(f"  {visible(hint)}", file=sys.stderr)
    sys.exit(exit_code)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"localspec {__version__}")
        raise typer.Exit


@app.callback()
def localspec(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """Chat with GGUF models in the terminal, decoded by an exact speculative loop."""
