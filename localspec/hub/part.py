"""The bytes of one file that have arrived so far: appended as they come, hashed on the way, whole only when verified.

Written without a buffer: a killed process loses nothing that it had received.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.hub import store
from localspec.hub.failures import HubError
from localspec.hub.types import PlannedFile

_BLOCK = 1 << 20


class Part:
    """Opens what an earlier download left; `busy` is called while those bytes are hashed again, and may raise."""

    def __init__(self, file: PlannedFile, cache: Path, busy: Callable[[], None]) -> None:
        self._file, self._cache = file, cache
        self.path = store.part(cache, file)
        if self.path.is_symlink():  # we make none, and what it points to is not ours to write to
            self.path.unlink()
        mark = store.read_mark(store.mark(cache, file))
        continues = mark.get("size") == file.size and self.path.exists()
        self.validator: str | None = mark.get("etag") if continues else None
        self._data = open(self.path, "r+b" if continues else "w+b", 0, opener=_itself)  # noqa: SIM115
        self.size, self._digest = 0, digest(file)
        if continues:
            try:
                self._take_in(busy)
            except BaseException:
                self._data.close()
                raise

    def __enter__(self) -> Part:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._data.close()

    def begin(self, validator: str | None) -> None:
        """Note down whose bytes these are, before the first of them."""
        if self.size == 0:
            self.validator = validator
            store.write_mark(self._cache, self._file, validator)

    def append(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            written = self._data.write(view)
            self._digest.update(view[:written])
            self.size += written
            view = view[written:]

    def restart(self) -> None:
        self._data.seek(0)
        self._data.truncate()
        self.size, self._digest, self.validator = 0, digest(self._file), None

    def drop(self) -> None:
        """Bytes that are not the file's must not be continued by anybody."""
        self._data.close()
        self.path.unlink(missing_ok=True)
        store.mark(self._cache, self._file).unlink(missing_ok=True)

    def verify(self) -> None:
        """Raises HubError unless these are the bytes that the Hub lists and they begin like a model."""
        if self.size != self._file.size or self._digest.hexdigest() != self._file.etag:
            self.drop()
            message = f"{self._file.name} arrived, but its bytes are not those that the Hub lists."
            raise HubError(
                message, "They were deleted. Pull again; a proxy on the way may change what it passes on."
            )
        os.fsync(self._data.fileno())
        self._data.close()
        try:
            header = gguf.read(str(self.path))
        except ModelLoadError as error:
            self._refuse(error.reason, error.hint)
        else:
            if header.expected_size > header.size:
                self._refuse("it is incomplete", "Tell its owner, or take another file.")

    def _refuse(self, reason: str, hint: str) -> None:
        self.drop()
        message = f"{self._file.name} is the same as on the Hub, but it can't be used: {reason}."
        raise HubError(message, f"It was deleted. {hint}")

    def _take_in(self, busy: Callable[[], None]) -> None:
        while data := self._data.read(_BLOCK):
            self._digest.update(data)
            self.size += len(data)
            busy()
        if self.size > self._file.size:
            self.restart()


def _itself(path: str, flags: int) -> int:
    """Never through a link."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def digest(file: PlannedFile) -> hashlib._Hash:
    """SHA-256; a small file that is kept without LFS is known by its git id instead."""
    if file.sha256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
