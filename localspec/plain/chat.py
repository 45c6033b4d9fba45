"""The loop of the line chat: a line is a message or a command, and is answered before the next one is read."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from localspec.attachments import attach
from localspec.chat.session import Node
from localspec.commands import Command, explained, files, is_command, literal, parse
from localspec.commands.acts import model
from localspec.commands.copying import confirmed, copied, said
from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.engine.messages import Loading, Ready
from localspec.errors import LocalspecError, UsageError
from localspec.opening import Chosen, named
from localspec.plain.printing import Writing, copy, say
from localspec.race import Race, race, step, terms, told

_PAUSE_S = 0.02  # between two looks at the engine: shorter than a token, long enough to cost nothing
_ABOUT = (
    "A line that begins with / is a command, // begins a message with a slash, @path attaches a text file.\n"
    "Ctrl+C stops an answer and keeps what was written. Ctrl+D leaves."
)


class PlainChat:
    def __init__(
        self,
        conversation: Conversation,
        client: EngineClient,
        folder: Path,
        thoughts: bool = True,
        chosen: Chosen | None = None,
    ) -> None:
        """`folder` is where files go, unless the command names another; `thoughts`: whether they are printed.
        Without `chosen` there is only the model that the chat began with."""
        self._conversation, self._client, self._folder = conversation, client, folder
        self._thoughts, self._chosen = thoughts, chosen
        self._notes = 0  # how many notes were printed
        self._race: Race | None = None  # it hears of its own events only
        self._own: dict[str, Callable[[str], None]] = {
            "copy": self._copy,
            "export": self._export,
            "help": self._help,
            "model": self._model,
            "race": self._run_race,
            "trace": self._trace,
        }

    def run(self) -> int:
        """Until end of input or /quit; the exit code."""
        self._begin()
        self._show_last()
        say("Type a message, or /help.")
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
                say(error.message, error.hint)

    def once(self) -> int:
        """Answer what waits already, and end there."""
        self._begin()
        return 0

    def _begin(self) -> None:
        self._conversation.start()
        say(f"Loading {self._conversation.options.title} ...")
        self._follow()

    def _take(self, line: str) -> bool:
        """False when the user wants to leave."""
        if is_command(line):
            called = parse(line)
            if called.command.name == "quit":
                return False
            with self._showing():
                self._obey(called.command, called.argument)
        elif line.strip():
            self._conversation.submit(attach(literal(line), Path.cwd()))
            if not self._conversation.running:
                say("The message waits: no model is loaded.", "F8 loads it again.")
        self._follow()
        return True

    def _obey(self, command: Command, argument: str) -> None:
        if own := self._own.get(command.name):
            own(argument)
        elif command.act:
            if answer := command.act(self._conversation, argument):
                say(answer)
        else:
            raise UsageError(f"/{command.name} needs the screen.", command.instead)

    # From the engine to the lines

    def _follow(self) -> None:
        """Wait for what is going on: a model that is loading, an answer that is being written."""
        if isinstance(self._conversation.engine, Loading):
            self._pump(lambda: isinstance(self._conversation.engine, Loading), self._conversation.stop)
            if isinstance(self._conversation.engine, Ready):
                say(f"{self._conversation.options.title} is ready; method {self._conversation.method}.")
        while node := self._conversation.running:
            self._write(node)
        self._print_notes()

    def _write(self, node: Node) -> None:
        assert node.answer is not None, "only answers run"
        writing = Writing(node.answer, self._conversation.opened(node), self._thoughts)

        def more() -> bool:
            writing.go_on()
            return self._conversation.running is node

        self._pump(more, self._conversation.stop)
        writing.end()

    def _pump(self, more: Callable[[], bool], stop: Callable[[], None]) -> None:
        """Fold what the engine says for as long as `more()`; Ctrl+C does `stop`, and the chat stays."""
        while True:
            try:
                for event in self._client.poll():
                    if not (self._race and self._race.fold(event)):
                        self._conversation.fold(event)
                self._conversation.keep()
                if not more():
                    self._print_notes()
                    return
                time.sleep(_PAUSE_S)
            except KeyboardInterrupt:
                stop()

    def _print_notes(self) -> None:
        for note in self._conversation.notes[self._notes :]:
            say(note.text, note.hint)
        self._notes = len(self._conversation.notes)
        while returned := self._conversation.take_returned():
            say(f"Not answered: {returned.text}", "Send it again when you like.")

    # What a screen would show by itself

    @contextmanager
    def _showing(self) -> Iterator[None]:
        """Where a command leads to another place in the conversation, or to another one, its end is printed."""
        before = self._conversation.session.tip
        yield
        if self._conversation.session.tip is not before and not self._conversation.running:
            self._show_last()

    def _show_last(self) -> None:
        for node in self._conversation.session.path[-2:]:
            if node.message:
                say(f"You: {node.message.text}")
            elif node.asked:
                say(f"{node.asked.model or 'Answer'}: {said(self._conversation, node)}")

    # Commands that are this interface's own

    def _copy(self, what: str) -> None:
        text = copied(self._conversation, code=what == "code")
        copy(text)
        say(confirmed(text, code=what == "code"))

    def _export(self, argument: str) -> None:
        paths = files.export(self._conversation, self._folder, argument)
        say(f"Wrote {' and '.join(map(str, paths))}.")

    def _help(self, _: str) -> None:
        width = max(len(name) for name, _ in explained())
        say("\n".join(f"{name:<{width}}  {help}" for name, help in explained()))
        say(_ABOUT)

    def _model(self, name: str) -> None:
        if not name:
            say(model(self._conversation, ""))
        elif self._chosen is None:
            raise UsageError("This chat has one model only.")
        else:
            self._conversation.switch_model(*self._chosen(named(name)))

    def _run_race(self, _: str) -> None:
        run = self._race = race(self._conversation, self._client)
        say(f"Race: {terms(run)}. Ctrl+C stops it.")
        shown = ""

        def more() -> bool:
            nonlocal shown
            if not run.over and shown != step(run):
                say(shown := step(run))
            return not run.over

        run.start()
        self._pump(more, run.stop)
        say("\n".join(line for line in told(run) if line))

    def _trace(self, _: str) -> None:
        say(f"Wrote {files.save_trace(self._conversation, self._folder)}.")
        say("localspec replay shows it. It holds question and answer.")
