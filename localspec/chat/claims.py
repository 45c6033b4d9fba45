"""Which process has which session open, so that two of them never write the same one.

One byte of a lock file stands for each session. The system frees a process's locks when it ends, however it ends.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two instances have to look after themselves
    fcntl = None  # type: ignore[assignment]


class Claims:
    def __init__(self, store: Path | None) -> None:
        """`store` is the file of the sessions; None: in memory, where nobody else comes."""
        self._file: int | None = None
        if store is not None and fcntl is not None:
            with suppress(OSError):  # a folder that can't be written to: nothing is kept there anyway
                self._file = os.open(f"{store}.lock", os.O_RDWR | os.O_CREAT, 0o600)

    def take(self, id: str) -> bool:
        """False where another process has it."""
        if self._file is None:
            return True
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _byte(id))
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            return True
        return True

    def release(self, id: str) -> None:
        if self._file is not None:
            with suppress(OSError):
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _byte(id))

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _byte(id: str) -> int:
    return int(id, 16)
