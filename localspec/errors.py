"""Everything that can go wrong in a way a person can act on.

LocalspecError                 exit code 1
├── UsageError                 exit code 2: the request itself is wrong
│   ├── UnknownName            an unknown pair, method, ...: suggests the nearest
│   ├── PromptTooLong          the prompt alone does not fit the context
│   └── SamplingError          a sampling setting outside its range
├── ModelLoadError             a file could not be loaded; carries the native log lines
├── LoadCancelled              the user stopped a load; exit code 130
├── ModelError                 a loaded model refused to go on (NaN logits, failed decode)
│   └── CannotRewind           this model's cache cannot be cut there
├── EngineDied                 the engine process ended by itself
└── StoreError                 the file of the sessions can't be used

Each has a message (what is wrong) and a hint (what to do). Interfaces show both; anything that is not a
LocalspecError is a bug. This module knows nothing but the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class LocalspecError(Exception):
    """A failure with one line that says what is wrong and one, `hint`, that says what to do."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(LocalspecError):
    exit_code = 2


class UnknownName(UsageError):
    """`name` is not among `known`; the hint offers the nearest, else the whole list."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        choices = sorted(known)
        near = get_close_matches(name, choices, n=1, cutoff=0.5)
        hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(choices)}."
        super().__init__(f"There is no {kind} named {name!r}.", hint)


class PromptTooLong(UsageError):
    def __init__(self, tokens: int, n_ctx: int) -> None:
        super().__init__(
            f"The prompt has {tokens:,} tokens, but the context holds {n_ctx:,}.",
            "Shorten it, start a new conversation, or load the model with a larger --n-ctx.",
        )
        self.tokens = tokens


class SamplingError(UsageError):
    pass


class ModelLoadError(LocalspecError):
    """`lines` are the last native log lines, for the details view; the reason is in the message."""

    def __init__(self, path: str, reason: str, hint: str = "", lines: tuple[str, ...] = ()) -> None:
        super().__init__(f"Cannot load {path}: {reason}", hint)
        self.path = path
        self.reason = reason
        self.lines = lines


class LoadCancelled(LocalspecError):
    exit_code = 130

    def __init__(self) -> None:
        super().__init__("Loading was stopped.")


class ModelError(LocalspecError):
    pass


class CannotRewind(ModelError):
    """`reachable` is the longest shorter length that the cache can be cut to instead."""

    def __init__(self, message: str, hint: str = "", reachable: int = 0) -> None:
        super().__init__(message, hint)
        self.reachable = reachable


class EngineDied(LocalspecError):
    def __init__(self, how: str, lines: tuple[str, ...] = ()) -> None:
        super().__init__(
            f"The engine stopped: {how}.", "Run it again; if it stops again, `localspec doctor` may tell why."
        )
        self.how = how
        self.lines = lines


class StoreError(LocalspecError):
    """`path` is the file, None for one in memory. `damaged`: what it holds is no whole database."""

    def __init__(self, path: object, reason: str, *, damaged: bool = False) -> None:
        super().__init__(f"Cannot use the file of the sessions, {path}: {reason}.")
        self.path = path
        self.reason = reason
        self.damaged = damaged
