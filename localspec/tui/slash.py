"""Slash commands on the screen: what only a screen can do, and where the word of any command is shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from localspec.chat.text import one_line
from localspec.commands import parse
from localspec.errors import LocalspecError, UnknownName
from localspec.tui.copying import copy

if TYPE_CHECKING:
    from localspec.tui.screens.chat import ChatScreen


def obey(screen: ChatScreen, line: str) -> None:
    """Do what the line says. What can't be done goes back to the editor, with the reason."""
    try:
        called = parse(line)
        if called.command.name in OWN and not (called.command.name == "edit" and called.argument):
            OWN[called.command.name](screen, called.argument)
        elif called.command.act:
            _say(screen, called.command.act(screen.conversation, called.argument))
        else:
            raise LocalspecError(f"/{called.command.name} is not there yet.")
    except LocalspecError as error:
        screen.composer.give_back(line, None)
        screen.notify(f"{error.message}\n{error.hint}".strip(), severity="warning", markup=False, timeout=8)


def _say(screen: ChatScreen, said: str) -> None:
    """A sentence passes by; a list stays in the transcript."""
    if "\n" in said or len(said) > 200:
        screen.conversation.say(said)
    elif said:
        screen.notify(one_line(said, 200), markup=False, timeout=5)


def _do(action: str) -> Callable[[ChatScreen, str], object]:
    async def run(screen: ChatScreen) -> None:
        await screen.run_action(action)

    return lambda screen, _: screen.call_later(run, screen)


def _theme(screen: ChatScreen, name: str) -> None:
    app = screen.app
    if not name:
        app.search_themes()
    elif name in app.available_themes:
        app.theme = name
        screen.notify(f'To keep it: theme = "{name}" in the config file.', markup=False, timeout=5)
    else:
        raise UnknownName("theme", name, app.available_themes)


OWN: dict[str, Callable[[ChatScreen, str], object]] = {
    "copy": lambda screen, what: copy(screen.app, screen.conversation, code=what == "code"),
    "edit": lambda screen, _: screen.composer.leaf(-1),
    "export": lambda screen, argument: screen.export(argument),
    "help": _do("app.help"),
    "model": lambda screen, name: _do(f"app.load({name!r})" if name else "app.models")(screen, ""),
    "quit": _do("app.quit"),
    "race": _do("race"),
    "settings": _do("settings"),
    "theme": _theme,
    "tokens": _do("tokens"),
    "trace": _do("trace"),
}
