"""llama.cpp's own log, kept in memory instead of on the terminal, and what its lines mean to a person.

Callbacks come from any thread, also in the middle of a decode: they append to a bounded queue and do nothing else.
Knows llama_cpp only as the module that it is handed.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from localspec.errors import ModelLoadError

WARN, ERROR, CONTINUED = 3, 4, 5  # ggml's log levels, as far as they matter here


@dataclass(frozen=True, slots=True)
class Line:
    serial: int
    level: int
    text: str


_lines: deque[Line] = deque(maxlen=4096)
_serial = count(1)
_callback: Any = None  # the native side holds a bare pointer: this reference keeps it alive


def install(lc: Any) -> None:
    """Send the native log here. Importing llama_cpp installs a printer of its own; this replaces it."""
    global _callback  # noqa: PLW0603 - the log is global in llama.cpp too
    if _callback is None:
        _callback = lc.llama_log_callback(_record)
    lc.llama_log_set(_callback, None)


def _record(level: int, text: bytes | None, _user: object) -> None:
    words = (text or b"").decode(errors="replace")
    if level == CONTINUED and _lines:
        last = _lines.pop()
        _lines.append(replace(last, text=last.text + words))
    else:
        _lines.append(Line(next(_serial), level, words))


def mark() -> int:
    """A place in the log, for `since`."""
    return next(_serial)


def since(place: int) -> tuple[Line, ...]:
    return tuple(line for line in _lines.copy() if line.serial > place)


def tail(lines: Iterable[Line] | None = None, n: int = 20) -> tuple[str, ...]:
    """The last `n` lines that say something, without their line ends."""
    texts = [line.text.rstrip() for line in (_lines.copy() if lines is None else lines)]
    return tuple([text for text in texts if text][-n:])


NO_ROOM = "there is not enough memory for it"
_OTHER = "Look for another GGUF version of this model."
_SMALLER = "Use a smaller --n-ctx, fewer --gpu-layers, or a smaller file."
_KNOWN = (
    (r"unknown model architecture: '(.*)'", "llama.cpp {version} does not know the architecture {0!r}", _OTHER),
    (r"unknown pre-tokenizer type: '(.*)'", "llama.cpp {version} does not know the tokenizer {0!r}", _OTHER),
    (r"missing tensor '(.*)'", "its tensor {0!r} is missing", _OTHER),
    (r"wrong number of tensors; expected (\d+), got (\d+)", "it has {0} tensors where {1} were expected", _OTHER),
    (r"key not found in model: (\S+)", "its header lacks {0!r}", _OTHER),
    (r"(?:failed|unable) to allocate", NO_ROOM, _SMALLER),
    (r"out of memory", NO_ROOM, _SMALLER),
)


def failure(path: str, place: int, version: str) -> ModelLoadError:
    """The error for a load that failed after `place` was marked."""
    lines = since(place)
    errors = [line.text for line in lines if line.level == ERROR] or [
        line.text for line in lines if line.level == WARN
    ]
    for pattern, reason, hint in _KNOWN:
        for text in errors:
            if match := re.search(pattern, text):
                return ModelLoadError(path, reason.format(*match.groups(), version=version), hint, tail(lines))
    first = errors[0] if errors else "llama.cpp gave no reason"
    return ModelLoadError(path, _plain(first), _OTHER, tail(lines))


def _plain(text: str) -> str:
    """Without the function names in front: people did not call them."""
    return re.sub(r"^(?:\w+: |error loading model(?: \w+)?: )+", "", text.strip())
