"""The slash commands: one list for the screen and for plain mode. Knows no widget and no terminal.

A command changes the conversation and returns what to say about it. One without `act` is the interface's own: it
copies, exports, opens a screen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TypeAlias

from localspec.commands import acts
from localspec.conversation import Conversation
from localspec.errors import UnknownName

_COMMAND = re.compile(r"/[a-zA-Z?]*(?:\s|$)")
Act: TypeAlias = Callable[[Conversation, str], str]
Choices: TypeAlias = Callable[[Conversation], Iterable[str]]


def _none(_: Conversation) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """`argument` is a hint such as `NAME` or `[PATH]`; brackets: it may be left out. `choices` are values for it.
    `instead`: it needs a screen, and this is what to do without one."""

    name: str
    help: str
    argument: str = ""
    act: Act | None = None
    aliases: tuple[str, ...] = ()
    choices: Choices = _none
    instead: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.aliases


@dataclass(frozen=True, slots=True)
class Called:
    command: Command
    argument: str


def is_command(text: str) -> bool:
    """`//` begins a message that begins with a slash; `/etc/hosts` and `/* a comment` are messages too."""
    return _COMMAND.match(text) is not None


def literal(text: str) -> str:
    """The message that `text` stands for, where it is no command."""
    return text[1:] if text.startswith("//") else text


def parse(line: str) -> Called:
    """Raises UnknownName with the nearest command."""
    name, _, argument = line[1:].strip().partition(" ")
    for command in COMMANDS:
        if name.lower() in command.names:
            return Called(command, argument.strip())
    known = ["/" + each for command in COMMANDS for each in command.names]
    near = get_close_matches("/" + name, known, n=1, cutoff=0.5)
    error = UnknownName("command", name, known)
    error.hint = f"Did you mean {near[0]}?" if near else "/help lists them."
    error.hint += " A message that begins with a slash is written with two: //"
    raise error


def explained() -> Iterator[tuple[str, str]]:
    """Each command with its argument and aliases, and its sentence."""
    for command in COMMANDS:
        also = f" (also {', '.join('/' + alias for alias in command.aliases)})" if command.aliases else ""
        place = " (on the screen only)" if command.instead else ""
        yield f"/{command.name} {command.argument}".rstrip(), f"{command.help}{also}{place}"


COMMANDS = (
    Command(
        "method", "switch the drafting method, also in mid-answer", "NAME", acts.use_method, choices=acts.methods
    ),
    Command("draft", "draft so many tokens a round", "N|auto", acts.use_length, ("k", "length"), acts.lengths),
    Command("verifier", "how drafts are checked", "block|token", acts.use_verifier, choices=acts.verifiers),
    Command(
        "set", "show the sampling settings, or change one", "[NAME VALUE]", acts.set_one, choices=acts.sampling
    ),
    Command("settings", "the sampling settings as a form; line by line: as a list", act=acts.settings),
    Command("system", "show or set the system prompt; - removes it", "[TEXT]", acts.system),
    Command(
        "model", "load another model; alone: choose one, line by line: what is loaded", "[PAIR|FILE]", acts.model
    ),
    Command("regenerate", "answer again, beside the last answer", act=acts.regenerate, aliases=("regen", "again")),
    Command("continue", "go on with an answer that was stopped", act=acts.go_on, aliases=("go",)),
    Command("edit", "ask the last message in other words", "[TEXT]", acts.edit),
    Command(
        "sibling",
        "another answer or wording beside the last",
        "[older|newer|N]",
        acts.sibling,
        choices=acts.siblings,
    ),
    Command("copy", "copy the last answer, or its last block of code", "[code]", choices=acts.code),
    Command(
        "export",
        "write the figures as JSON and CSV, or what was said as FILE.md or FILE.json",
        "[FOLDER|conversation [FILE]]",
        choices=acts.exports,
    ),
    Command("stats", "figures of the last answer", act=acts.stats),
    Command("new", "begin a new session; this one is kept", act=acts.new, aliases=("clear",)),
    Command("sessions", "list the sessions, or messages with these words", "[WORDS]", acts.sessions, ("search",)),
    Command("open", "go on with another session", "TITLE|ID", acts.open_named, choices=acts.titles),
    Command("rename", "name this session", "TITLE", acts.rename),
    Command("drop", "where the context is full: leave out the oldest turns", act=acts.drop),
    Command("race", "the last message with and without drafts, and how fast each is"),
    Command("tokens", "who proposed each token", act=acts.tokens),
    Command("trace", "save the last answer with all its rounds"),
    Command(
        "theme",
        "change the colours; without a name, choose from a list",
        "[NAME]",
        instead="Line by line the colours are your terminal's.",
    ),
    Command("reload", "load the model again", act=acts.reload),
    Command("help", "what there is to do", aliases=("?",)),
    Command("quit", "leave", aliases=("exit", "q")),
)
