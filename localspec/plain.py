"""`localspec chat` without a screen: lines in, lines out, for pipes and screen readers.

The same conversation as on the screen (conversation.py), driven by slash commands. Answers go to standard output,
everything else to standard error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from localspec.chat.export import export_session
from localspec.chat.figures import footer
from localspec.chat.text import visible
from localspec.conversation import Conversation
from localspec.engine.client import EngineClient
from localspec.engine.messages import Died, Failed, Loading
from localspec.errors import LocalspecError, UnknownName, UsageError

_PAUSE_S = 0.02  # between two looks at the engine: shorter than a token, long enough to cost nothing

HELP = """\
/method NAME   switch the drafting method     /k N|auto draft N tokens a round
/regen         answer again                   /stats    figures of the last answer
/export        statistics as JSON and CSV     /reload   load the model again
/help          this list                      /quit     leave (also Ctrl+D)
Ctrl+C stops an answer and keeps what was written."""


class PlainChat:
    def __init__(self, conversation: Conversation, client: EngineClient, folder: Path) -> None:
        """`folder` is where exports go, unless the command names another."""
        self._conversation, self._client, self._folder = conversation, client, folder
        self._notes = 0  # how many notes were printed

    def run(self) -> int:
        """Until end of input or /quit; the exit code."""
        self._load()
        _say("Type a message, or /help.")
        while True:
            try:
                line = input("> " if sys.stdin.isatty() else "")
            except EOFError:
                return 0
            except KeyboardInterrupt:
                return 130
            if not line.strip():
                continue
            if line.strip() == "/quit":
                return 0
            try:
                self._take(line)
            except LocalspecError as error:
                _say(error.message, error.hint)

    def _take(self, line: str) -> None:
        if not line.startswith("/"):
            self._ask(lambda: self._conversation.submit(line))
            return
        name, _, argument = line[1:].partition(" ")
        commands = self._commands()
        if name not in commands:
            raise UnknownName("command", name, commands)
        commands[name](argument.strip())

    def _commands(self) -> dict[str, Callable[[str], None]]:
        return {
            "help": lambda _: _say(HELP),
            "method": self._use_method,
            "k": self._use_length,
            "regen": lambda _: self._ask(self._conversation.regenerate),
            "stats": lambda _: self._stats(),
            "export": self._export,
            "reload": lambda _: self._load(),
            "quit": lambda _: None,
        }

    def _load(self) -> None:
        self._conversation.start()
        _say(f"Loading {self._conversation.options.title} ...")
        self._pump(lambda: isinstance(self._conversation.engine, Loading))
        engine = self._conversation.engine
        if not isinstance(engine, Failed | Died):
            _say(f"{self._conversation.options.title} is ready; method {self._conversation.method}.")

    def _ask(self, action: Callable[[], None]) -> None:
        """Do it, then print the answer while it comes."""
        action()
        node = self._conversation.running
        if node is None or node.answer is None:
            self._print_notes()
            return
        answer, printed = node.answer, 0

        def show() -> bool:
            nonlocal printed
            new, printed = answer.pieces[printed:], len(answer.pieces)
            sys.stdout.write(visible("".join(piece.text for piece in new)))
            sys.stdout.flush()
            return self._conversation.running is node

        self._pump(show)
        show()
        print(visible(answer.tail))
        if answer.rounds:
            _say(f"[{footer(answer)}]")

    def _pump(self, more: Callable[[], bool]) -> None:
        """Fold what the engine says for as long as `more()`; Ctrl+C stops the answer, not the chat."""
        while True:
            try:
                for event in self._client.poll():
                    self._conversation.fold(event)
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

    def _use_method(self, name: str) -> None:
        methods = self._conversation.methods
        if name not in methods:
            raise UnknownName("method", name, methods)
        self._conversation.use(name, self._conversation.draft_tokens)
        _say(f"Method {name} from the next round on.")

    def _use_length(self, text: str) -> None:
        if text != "auto" and not text.isdecimal():
            raise UsageError(f"/k needs a number or auto, not {text!r}.", "For example: /k 4")
        self._conversation.use(self._conversation.method, None if text == "auto" else int(text))
        _say(f"Draft length {text} from the next round on.")

    def _stats(self) -> None:
        answer = self._conversation.shown
        _say(footer(answer) if answer else "No answer yet.")

    def _export(self, folder: str) -> None:
        environment = self._conversation.environment
        facts = asdict(environment) if environment else None
        paths = export_session(
            Path(folder or self._folder).expanduser(),
            self._conversation.session,
            facts,
            now=datetime.now().astimezone(),
        )
        _say(f"Wrote {paths[0]} and {paths[1]}.")


def _say(text: str, hint: str = "") -> None:
    print(visible(text), file=sys.stderr)
    if hint:
        print(f"  {visible(hint)}", file=sys.stderr)
