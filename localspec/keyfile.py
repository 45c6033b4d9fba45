"""Files that hold API keys: readable by their owner alone, one key a line. Keys are never printed.

For `localspec serve`, which compares them, and for the remote engine, which sends one.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
import sys
from collections.abc import Iterable
from pathlib import Path

from localspec.errors import UsageError

VARIABLE = "LOCALSPEC_API_KEY"


def read(file: Path) -> tuple[str, ...]:
    """Raises UsageError for a file that others may read, or that holds no key."""
    try:
        with file.open(encoding="utf-8") as opened:
            _check_mode(file, os.fstat(opened.fileno()))
            lines = opened.read(100_000).splitlines()
    except OSError as error:
        raise UsageError(f"Cannot read {file}: {error.strerror}.", "It holds one key a line.") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is no text.", "It holds one key a line.") from None
    keys = tuple(line.strip() for line in lines if line.strip())
    if not keys:
        raise UsageError(f"{file} holds no key.", "Write one, for example: openssl rand -hex 32")
    if not all(is_sendable(key) for key in keys):
        raise UsageError(f"A key in {file} has spaces or characters that no header can carry.", "Use hex digits.")
    return keys


def is_sendable(key: str) -> bool:
    return key.isascii() and key.isprintable() and " " not in key


def own_key(file: Path | None) -> str | None:
    """The key to send: the first of the file, else of the environment; None where there is none."""
    if file is not None:
        return read(file)[0]
    key = os.environ.get(VARIABLE, "").strip()
    if key and not is_sendable(key):
        raise UsageError(f"{VARIABLE} has spaces or characters that no header can carry.", "Set it again.")
    return key or None


def is_among(given: str, keys: Iterable[str]) -> bool:
    """Takes as long for a wrong key as for a right one, whatever its length."""
    wanted, found = _digest(given), False
    for key in keys:
        found |= hmac.compare_digest(wanted, _digest(key))
    return found


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()


def _check_mode(file: Path, status: os.stat_result) -> None:
    if sys.platform != "win32" and stat.S_IMODE(status.st_mode) & 0o077:
        raise UsageError(f"{file} can be read by others than you.", f"chmod 600 {file}")
