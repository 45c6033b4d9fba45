"""The config file as a text: its table, and the line on which a key stands. Knows no setting."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.errors import UnknownName, UsageError

_HEADER = re.compile(r"\s*\[+\s*(?P<table>[^\]]+?)\s*\]+")
_REMEDY = "Correct it (localspec config edit), or move the file away to use the defaults."


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """`text` is empty where there is no such file."""

    path: Path
    text: str

    def table(self) -> dict[str, Any]:
        try:
            return tomllib.loads(self.text)
        except (ValueError, RecursionError) as error:  # a ValueError also for a number without an end
            raise UsageError(f"{self.path}: {error}.", _REMEDY) from None

    def where(self, name: str, table: str = "") -> str:
        """`FILE, line 3`, or only the file where the key is written in an unusual way."""
        key = re.compile(rf"\s*(['\"]?){re.escape(name)}\1\s*=")
        inside = ""
        for number, line in enumerate(self.text.splitlines(), 1):
            if header := _HEADER.match(line):
                inside = header["table"]
            if (inside == table and key.match(line)) or (header and not table and inside == name):
                return f"{self.path}, line {number}"
        return str(self.path)


def read(path: Path) -> ConfigFile:
    try:
        if path.is_fifo():  # reading one waits until somebody writes
            raise UsageError(f"{path}: it is a pipe, not a file.", _REMEDY)
        return ConfigFile(path, path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return ConfigFile(path, "")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{path}: {reason}.", _REMEDY) from None


def unknown(where: str, kind: str, name: str, known: Any) -> UnknownName:
    """The error for a name that is not there, with the place where it stands."""
    error = UnknownName(kind, name, known)
    error.message = f"{where}: {error.message[0].lower()}{error.message[1:]}"
    return error
