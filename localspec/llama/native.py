"""The door to llama_cpp: its low-level module with the log already caught, and native objects that are freed once.

Every other module of this room imports `lc` from here, so nothing native runs before the log is ours.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeAlias

# Without it a failed assertion spends seconds starting a debugger before the process ends.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")

import llama_cpp.llama_cpp as lc

from localspec.errors import ModelError
from localspec.llama import logs

__all__ = ["Native", "Pointer", "lc", "version"]

Pointer: TypeAlias = Any  # ctypes knows no better

logs.install(lc)
lc.llama_backend_init()


def version() -> str:
    """llama.cpp's own version."""
    text: str = lc.llama_version().decode()
    return text


class Native:
    """The native objects of one model. They are freed together, the last one first, and only once."""

    def __init__(self) -> None:
        self._owned = ExitStack()
        self._free = weakref.finalize(self, self._owned.close)

    def own(self, thing: Pointer, free: Callable[[Pointer], object]) -> Pointer:
        self._owned.callback(free, thing)
        return thing

    def close(self) -> None:
        self._free()

    @property
    def closed(self) -> bool:
        return not self._free.alive

    def check(self) -> None:
        """A freed pointer must never reach llama.cpp."""
        if self.closed:
            raise ModelError("The model is closed.", "Load it again.")
