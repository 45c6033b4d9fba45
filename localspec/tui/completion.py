"""What could come next in the prompt: a command, its argument, or a file. A function of the text before the cursor."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.commands import COMMANDS, Command
from localspec.conversation import Conversation
from localspec.tui.fuzzy import best, match

_MOST = 8  # suggestions at once
_MOST_FILES, _DEEPEST = 4000, 8
_IGNORED = frozenset({"node_modules", "__pycache__", "venv", "env", "build", "dist", "target", "site-packages"})
_FILE = re.compile(r'(?:^|(?<=\s))@"?(?P<query>[^\s"]*)$')


@dataclass(frozen=True, slots=True)
class Suggestion:
    """`text` takes the place of the word; `marks` are the letters of `shown` that were matched. `ends`: Enter may
    send it at once."""

    text: str
    shown: str
    note: str = ""
    marks: tuple[int, ...] = ()
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """`word` is what is being completed. `done`: the text can be sent as it stands. `hint` says what comes next."""

    word: str
    items: tuple[Suggestion, ...] = ()
    done: bool = False
    hint: str = ""


def offer(before: str, chat: Conversation, files: Sequence[str]) -> Offer | None:
    if before.startswith("/") and not before.startswith("//") and "\n" not in before:
        name, space, argument = before[1:].partition(" ")
        if space:
            return _argument(name.lower(), argument, chat)
        return None if "/" in name else _name(name)
    if found := _FILE.search(before):
        return _file(before[found.start() :], found["query"], files)
    return None


def files_under(folder: Path) -> Iterator[str]:
    """Files by their path from here, the nearest first; a bounded look, without hidden and ignored folders."""
    ignored = _IGNORED | _gitignored(folder)
    level, count = [folder], 0
    for _ in range(_DEEPEST):
        below: list[Path] = []
        for inside in level:
            for entry in _entries(inside):
                if entry.name.startswith(".") or entry.name in ignored:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    below.append(Path(entry.path))
                    continue
                yield Path(entry.path).relative_to(folder).as_posix()
                count += 1
                if count == _MOST_FILES:
                    return
        level = below


def _name(query: str) -> Offer | None:
    ranked = best(query, [(name, c) for c in COMMANDS for name in c.names], lambda pair: pair[0], len(COMMANDS) * 3)
    seen: list[Command] = []
    items = []
    for (name, command), _ in ranked:
        if command not in seen:
            seen.append(command)
            own = match(query, command.name)
            text = f"/{command.name} " if command.argument else f"/{command.name}"
            shown = f"/{command.name} {command.argument}".rstrip()
            alias = "" if own else f" (/{name})"
            places = tuple(place + 1 for place in own[1]) if own else ()
            ends = not command.argument or command.argument.startswith("[")
            items.append(Suggestion(text, shown, command.help + alias, places, ends))
    exact = any(query in command.names for command in COMMANDS)
    return Offer("/" + query, tuple(items[:_MOST]), done=exact) if items else None


def _argument(name: str, argument: str, chat: Conversation) -> Offer | None:
    command = next((command for command in COMMANDS if name in command.names), None)
    if command is None:
        return None
    choices = list(command.choices(chat))
    ranked = best(argument, choices, str, _MOST)
    items = tuple(Suggestion(text, text.strip(), "", marks, not text.endswith(" ")) for text, marks in ranked)
    hint = f"/{command.name} {command.argument}  {command.help}"
    return Offer(argument, items, done=not argument or argument in choices, hint=hint)


def _file(word: str, query: str, files: Sequence[str]) -> Offer | None:
    ranked = best(query, files, str, _MOST)
    items = tuple(
        Suggestion(f'@"{path}" ' if " " in path else f"@{path} ", path, "", marks) for path, marks in ranked
    )
    return Offer(word, items, done=query in files) if items else None


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _gitignored(folder: Path) -> set[str]:
    """The plain names in .gitignore: patterns are left to git."""
    try:
        lines = (folder / ".gitignore").read_text("utf-8").split()
    except (OSError, UnicodeDecodeError):
        return set()
    return {line.strip("/") for line in lines if not set(line) & set("*?[!#")}
