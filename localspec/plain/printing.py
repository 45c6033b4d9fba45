"""Where the words of a line chat go: an answer to standard output while it comes, all that is said beside it to
standard error. Knows no conversation.
"""

from __future__ import annotations

import base64
import os
import re
import sys

from localspec.chat.answer import Answer
from localspec.chat.figures import footer
from localspec.chat.text import visible
from localspec.chat.thinking import parts, tokens_before
from localspec.errors import UsageError

_DIM, _PLAIN = "\x1b[2m", "\x1b[22m"
_COPY = b"\x1b]52;c;%b\x07"  # OSC 52: the terminal copies, over SSH too
# Hints name the keys of the screen; line by line a command does the same.
_INSTEAD = {
    "F2": "/model",
    "F8": "/reload",
    "Ctrl+R": "/regenerate",
    "Esc": "Ctrl+C",
    "↑ in the empty prompt": "/edit",
}
_KEYS = re.compile("|".join(rf"(?<!\w){re.escape(key)}(?!\w)" for key in _INSTEAD))


class Writing:
    """Prints an answer while it comes: what it says to standard output, its thoughts dim to standard error."""

    def __init__(self, answer: Answer, opened: bool, thoughts: bool) -> None:
        self._answer, self._opened, self._thoughts = answer, opened, thoughts
        self._thought = self._said = 0  # characters printed

    def go_on(self, *, ended: bool = False) -> None:
        now = parts(self._answer.text, opened=self._opened, ended=ended)
        if self._thoughts and len(now.thought) > self._thought:
            _aside(now.thought[self._thought :])
        if now.said and not self._said and now.thought:
            count = tokens_before(self._answer.pieces, now.begins)
            say(f"{chr(10) if self._thoughts else ''}[thought for {count:,} tokens]")
        self._thought = len(now.thought)
        sys.stdout.write(visible(now.said[self._said :]))
        sys.stdout.flush()
        self._said = len(now.said)

    def end(self) -> None:
        self.go_on(ended=True)
        print(flush=True)
        if self._answer.rounds:
            say(f"[{footer(self._answer)}]")


def say(text: str, hint: str = "") -> None:
    print(visible(text), file=sys.stderr)
    if hint:
        print(f"  {visible(_KEYS.sub(lambda key: _INSTEAD[key[0]], hint))}", file=sys.stderr)


def copy(text: str) -> None:
    """Ask the terminal to. Raises UsageError where there is none."""
    if not sys.stdout.isatty():
        raise UsageError(
            "There is no terminal here that could copy.",
            "The answer is on standard output; /export conversation FILE.md writes it to a file.",
        )
    sys.stdout.flush()
    # Beneath the text layer, which shows what a terminal would obey.
    sys.stdout.buffer.write(_COPY % base64.b64encode(text.encode("utf-8", "replace")))
    sys.stdout.buffer.flush()


def _aside(text: str) -> None:
    dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    sys.stderr.write(f"{_DIM}{visible(text)}{_PLAIN}" if dim else visible(text))
    sys.stderr.flush()
