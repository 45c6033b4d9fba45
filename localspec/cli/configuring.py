"""Commands about the settings: config show, config path, config edit."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from localspec.cli.program import app
from localspec.errors import LocalspecError, UsageError

settings = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(settings, name="config", help="Show or change the settings (docs/configuration.md).")

NEW_FILE = """\
# Settings of localspec. Every key: docs/configuration.md. What is in effect: localspec config show
#
# temperature = 0.7
# method = "auto"
#
# [keys]
# "chat.stop" = "escape,ctrl+x"
"""


@settings.command()
def show(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Every setting with its value, and who said so: the default, the file or a variable."""
    from localspec import config, settle

    found = settle.settings() | {f"keys.{name}": key for name, key in config.keys().items()}
    if as_json:
        rows = {name: {"value": each.value, "origin": each.origin} for name, each in found.items()}
        print(json.dumps({"file": str(config.config_file()), "settings": rows}, indent=2))
        return
    width = max(map(len, found))
    for name, each in found.items():
        value = "not set" if each.value is None else str(each.value)
        print(f"{name:<{width}}  {value:<12}  {each.origin}".rstrip())


@settings.command()
def path() -> None:
    """The path of the config file, whether or not it is there."""
    from localspec import config

    print(config.config_file())


@settings.command()
def edit() -> None:
    """Open the config file in $EDITOR, and check it afterwards."""
    from localspec import config

    file = config.config_file()
    if not file.exists():
        _write_new(file)
    _open_editor(file)
    try:
        check()
    except LocalspecError as error:
        raise UsageError(error.message, f"{error.hint} Then: localspec config edit".lstrip()) from None
    print(f"{file} is in order.", file=sys.stderr)


def check() -> None:
    """Raises for whatever is wrong with the file, its keys for the screen included."""
    from localspec import config
    from localspec.tui.keymap import keymap

    config.settings(env={})
    keymap(config.keys())


def _open_editor(file: Path) -> None:
    import subprocess

    command = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not command:
        raise UsageError("There is no $EDITOR.", f"Set it, or edit {file} with any program.")
    try:
        ended = subprocess.call([*shlex.split(command), str(file)])
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"Cannot start {command!r}: {reason}.", "Set $EDITOR to a program that is there."
        ) from None
    if ended != 0:
        raise LocalspecError(f"{command!r} ended with an error.", f"The file is {file}.")


def _write_new(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(NEW_FILE, "utf-8")
    except OSError as error:
        raise LocalspecError(f"{file}: {error.strerror}.", "Choose another place with XDG_CONFIG_HOME.") from None
