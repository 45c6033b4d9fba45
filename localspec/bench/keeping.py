"""Single settings into the user's config file, without touching anything else in it: comments, order and spelling stay.

Pure but for the last function. Every edit is read back before it is written: the file must then say what it said
before, and the new values.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from localspec import config
from localspec.errors import LocalspecError, UsageError

_YOURSELF = "The settings are above; write them yourself."
_TABLE = re.compile(r"^\s*\[", re.MULTILINE)


def edited(text: str, values: Mapping[str, str | int]) -> str:
    """`text` with these top-level keys set. Raises UsageError for a text that is no TOML."""
    for name, value in values.items():
        try:
            wanted = tomllib.loads(text) | {name: value}
        except (ValueError, RecursionError) as error:
            raise UsageError(f"The config file can't be read: {error}.", "Correct it first.") from None
        text = next(found for found in _attempts(text, name, value) if _reads(found) == wanted)
    return text


def _attempts(text: str, name: str, value: str | int) -> Iterator[str]:
    """Replace each line that looks like the key (one may stand inside a text), else add it before the first table;
    which one was right shows when it is read back."""
    line = f"{name} = {_written(value)}"
    key = re.compile(
        rf"""^[ \t]*(?P<quote>["']?){name}(?P=quote)[ \t]*=[ \t]*[^#\n]*?(?P<comment>[ \t]*\#[^\n]*)?$""",
        re.MULTILINE,
    )
    for match in key.finditer(text):
        yield text[: match.start()] + line + (match["comment"] or "") + text[match.end() :]
    for place in (*(match.start() for match in _TABLE.finditer(text)), len(text)):
        before = text[:place]
        joined = before if not before or before.endswith("\n") else before + "\n"
        yield joined + line + "\n" + text[place:]


def _written(value: str | int) -> str:
    return str(value) if isinstance(value, int) else f'"{value}"'


def _reads(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def keep(file: Path, values: Mapping[str, str | int]) -> None:
    """Write them, and leave the file as it was where that is not possible."""
    part = file.with_name(f".{file.name}.{uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = file.read_text("utf-8") if file.exists() else ""
        part.write_text(_edited(file, text, values), "utf-8")
        config.load(env={}, file=part)  # raises for a value that may not stand there
        part.replace(file.resolve())
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise LocalspecError(f"Cannot write {file}: {reason}.", _YOURSELF) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def _edited(file: Path, text: str, values: Mapping[str, str | int]) -> str:
    try:
        return edited(text, values)
    except StopIteration:
        raise LocalspecError(
            f"{file} is written in a way that can't be changed safely.",
            "The settings are above; write them yourself.",
        ) from None
