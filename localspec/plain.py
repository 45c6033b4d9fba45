"""`localspec chat` without a screen: lines in, lines out, for pipes and screen readers.

The same conversation as on the screen (conversation.py), driven by the same slash commands. Answers go to standard
output, everything else to standard error, what a model thinks before it answers included.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from localspec.attachments import attach
from localspec.chat.answer import Answer
from localspec.chat.export import export_session
from localspec.chat.figures import footer
from localspec.chat.session import Node
from localspec.chat.text import visible
from localspec.chat.thinking import parts, tokens_before
from localspec.commands import explained, is_command, literal, parse
from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.engine.messages import Loading, Ready
from localspec.errors import LocalspecError, UsageError

_PAUSE_S = 0.02  # between two looks at the engine: shorter than a token, long enough to cost nothing
_DIM, _PLAIN = "\x1b[2m", "\x1b[22m"
_ABOUT = (
    "A line that begins with / is a command, // begins a message with a slash, @path attaches a text file.\n"
    "Ctrl+C stops an answer and keeps what was written. Ctrl+D leaves."
)


class PlainChat:
    def __init__(
        self, conversation: Conversation, client: EngineClient, folder: Path, *, thoughts: bool = True
    ) -> None:
        """`folder` is where exports go, unless the command names another; `thoughts`: whether they are printed."""
        self._conversation, self._client, self._folder, self._thoughts = conversation, client, folder, thoughts
        self._notes = 0  # how many notes were printed
        self._own: dict[str, Callable[[str], None]] = {"help": self._help, "export": self._export}

    def run(self) -> int:
        """Until end of input or /quit; the exit code."""
        self._conversation.start()
        _say(f"Loading {self._conversation.options.title} ...")
        self._follow()
        _say("Type a message, or /help.")
        while True:
            try:
                line = input("> " if sys.stdin.isatty() else "")
            except EOFError:
                return 0
            except KeyboardInterrupt:
                return 130
            try:
                if not self._take(line):
                    return 0
            except LocalspecError as error:
                _say(error.message, error.hint)

    def once(self) -> int:
        """Answer what waits already, and end there."""
        self._conversation.start()
        self._follow()
        return 0

    def _take(self, line: str) -> bool:
        """False when the user wants to leave."""
        if is_command(line):
            called = parse(line)
            if called.command.name == "quit":
                return False
            self._obey(called.command.name, called.command.act, called.argument)
        elif line.strip():
            self._conversation.submit(attach(literal(line), Path.cwd()))
        self._follow()
        return True

    def _obey(self, name: str, act: Callable[[Conversation, str], str] | None, argument: str) -> None:
        if own := self._own.get(name):
            own(argument)
        elif act:
            if said := act(self._conversation, argument):
                _say(said)
        else:
            raise UsageError(f"/{name} needs the screen.", "Start without --plain, on a terminal.")

    def _follow(self) -> None:
        """Wait for what is going on: a model that is loading, an answer that is being written."""
        if isinstance(self._conversation.engine, Loading):
            self._pump(lambda: isinstance(self._conversation.engine, Loading))
            if isinstance(self._conversation.engine, Ready):
                _say(f"{self._conversation.options.title} is ready; method {self._conversation.method}.")
        while node := self._conversation.running:
            self._write(node)
        self._print_notes()

    def _write(self, node: Node) -> None:
        assert node.answer is not None, "only answers run"
        writing = Writing(node.answer, self._opened, self._thoughts)

        def more() -> bool:
            writing.go_on()
            return self._conversation.running is node

        self._pump(more)
        writing.end()

    @property
    def _opened(self) -> bool:
        engine = self._conversation.engine
        return isinstance(engine, Ready) and engine.thinks

    def _pump(self, more: Callable[[], bool]) -> None:
        """Fold what the engine says for as long as `more()`; Ctrl+C stops the answer, not the chat."""
        while True:
            try:
                for event in self._client.poll():
                    self._conversation.fold(event)
                self._conversation.keep()
                if not more():
                    self._print_notes()
                    return
                time.sleep(_PAUSE_S)
            except KeyboardInterrupt:
                self._conversation.stop()

    def _print_notes(self) -> None:
        for note in self._conversation.notes[self._notes :]:
            _say(note.text, note.hint)
        self._notes = len(self._conversation.notes)

    def _help(self, _: str) -> None:
        width = max(len(name) for name, _ in explained())
        _say("\n".join(f"{name:<{width}}  {help}" for name, help in explained()))
        _say(_ABOUT)

    def _export(self, folder: str) -> None:
        environment = self._conversation.environment
        facts = asdict(environment) if environment else None
        paths = export_session(
            Path(os.path.expanduser(folder or self._folder)),
            self._conversation.session,
            facts,
            now=datetime.now().astimezone(),
        )
        _say(f"Wrote {paths[0]} and {paths[1]}.")


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
            _say(f"{chr(10) if self._thoughts else ''}[thought for {count:,} tokens]")
        self._thought = len(now.thought)
        sys.stdout.write(visible(now.said[self._said :]))
        sys.stdout.flush()
        self._said = len(now.said)

    def end(self) -> None:
        self.go_on(ended=True)
        print(flush=True)
        if self._answer.rounds:
            _say(f"[{footer(self._answer)}]")


def _aside(text: str) -> None:
    dim = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    sys.stderr.write(f"{_DIM}{visible(text)}{_PLAIN}" if dim else visible(text))
    sys.stderr.flush()


def _say(text: str, hint: str = "") -> None:
    print(visible(text), file=sys.stderr)
    if hint:
        print(f"  {visible(hint)}", file=sys.stderr)
