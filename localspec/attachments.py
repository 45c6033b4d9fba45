"""`@path` in a message: the text of the file goes with it, in a marked form. Knows no screen and no model."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from pathlib import Path

from localspec.errors import UsageError

MOST_BYTES = 256 * 1024
# At the beginning of a word, bare or in quotes. A bare one ends before the punctuation of its sentence.
_REFERENCE = re.compile(
    r'(?<!\S)(?P<escape>\\?)@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]*[^\s".,;:!?)\]}\'`]))(?P<call>\()?'
)
_FENCED = re.compile(r"^(?P<fence>`{3,}|~{3,}).*?(?:^(?P=fence)|\Z)", re.MULTILINE | re.DOTALL)
_LOOKS_LIKE_A_FILE = re.compile(r".*(?:/.*|\.[A-Za-z][A-Za-z0-9]{0,3})", re.DOTALL)


def attach(text: str, folder: Path) -> str:
    """The message with the files that it names, each after it. Raises UsageError for one that can't be attached.

    Only what looks like a file must be one: `@decorator` and an address stay as they are, and so does code in fences.
    `\\@` writes the sign itself.
    """
    files: list[Path] = []

    def named(match: re.Match[str]) -> str:
        name = match["quoted"] or match["bare"]
        if match["escape"]:
            return match[0][1:]
        path = _path(name, folder)
        if path is None:
            return match[0]
        if not os.path.exists(path) and (
            match["call"] or not (match["quoted"] or _LOOKS_LIKE_A_FILE.fullmatch(name))
        ):
            return match[0]
        if path not in files:
            files.append(path)
        return name + (match["call"] or "")

    said = "".join(part if fenced else _REFERENCE.sub(named, part) for part, fenced in _split(text))
    return said + with_files(files, folder)


def with_files(files: Iterable[Path], folder: Path) -> str:
    """The files as they stand behind a message; empty without any."""
    return "".join(f"\n\nFile {_name(path, folder)}:\n{_fenced(path)}" for path in files)


def _path(name: str, folder: Path) -> Path | None:
    """None for what can't be the name of a file: too long, or with a zero in it."""
    try:
        path = folder / os.path.expanduser(name)
        kind = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return path  # what is wrong with it is said when it is read
    except (OSError, ValueError):
        return None
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):  # reading a pipe may wait for ever
        raise UsageError(f"{path} is a device or a pipe.", "Attach a file; in a chat, \\@ writes the sign itself.")
    return path


def _split(text: str) -> Iterable[tuple[str, bool]]:
    """The stretches of a text, and whether each is a block of code."""
    at = 0
    for match in _FENCED.finditer(text):
        yield text[at : match.start()], False
        yield match[0], True
        at = match.end()
    yield text[at:], False


def _fenced(path: Path) -> str:
    content = _read(path)
    longest = max(map(len, re.findall(r"`+", content)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{path.suffix.removeprefix('.')}\n{content.rstrip()}\n{fence}"


def _read(path: Path) -> str:
    if path.is_dir():
        raise UsageError(f"{path} is a folder.", "Name the files in it: @folder/file")
    try:
        with path.open("rb") as file:  # not more than is wanted: the file may be anything
            data = file.read(MOST_BYTES + 1)
        size = path.stat().st_size
    except FileNotFoundError:
        raise UsageError(
            f"There is no file {path}.", "Paths begin at the current folder. In a chat, \\@ writes the sign itself."
        ) from None
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.") from None
    if len(data) > MOST_BYTES:
        raise UsageError(
            f"{path} has {max(size, len(data)) / 1024:,.0f} KB; up to {MOST_BYTES // 1024} KB can be attached.",
            "Copy the part that matters into a smaller file.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"{path} is no text file.", "Only text in UTF-8 can be attached.")
    return text.replace("\r\n", "\n")


def _name(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else str(path)
