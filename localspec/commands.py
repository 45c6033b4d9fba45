"""The slash commands: one list for the screen and for plain mode. Knows no widget and no terminal.

A command changes the conversation and returns what to say about it. One without `act` is the interface's own: it
copies, exports, opens a screen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeAlias

from localspec.chat.figures import footer
from localspec.conversation import DRAFT_LENGTHS, OFF, Conversation
from localspec.engine.messages import Ready
from localspec.errors import LocalspecError, UnknownName, UsageError
from localspec.methods import ALIASES
from localspec.sampling_fields import FIELDS, changed, field
from localspec.spec.lossy import verifier as named_verifier

Act: TypeAlias = Callable[[Conversation, str], str]
Choices: TypeAlias = Callable[[Conversation], Iterable[str]]


def _none(_: Conversation) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """`argument` is a hint such as `NAME` or `[PATH]`; brackets: it may be left out. `choices` are values for it."""

    name: str
    help: str
    argument: str = ""
    act: Act | None = None
    aliases: tuple[str, ...] = ()
    choices: Choices = _none
    screen_only: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.aliases


@dataclass(frozen=True, slots=True)
class Called:
    command: Command
    argument: str


def is_command(text: str) -> bool:
    """`//` begins a message that begins with a slash; so does a path such as /etc/hosts."""
    name = text[1:].split(maxsplit=1)[0] if text[1:].strip() else ""
    return text.startswith("/") and not text.startswith("//") and "/" not in name


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
        place = " (on the screen only)" if command.screen_only else ""
        yield f"/{command.name} {command.argument}".rstrip(), f"{command.help}{also}{place}"


# What the commands do


def _use_method(chat: Conversation, name: str) -> str:
    if not name:
        return (
            f"The method is {chat.method}. There are: {', '.join(chat.methods) or 'none before a model is loaded'}."
        )
    wanted = ALIASES.get(name.lower(), name.lower())
    if wanted not in chat.methods:
        reasons = dict(chat.engine.reasons) if isinstance(chat.engine, Ready) else {}
        if wanted in reasons:
            there = ", ".join(chat.methods)
            raise UsageError(f"{wanted} does not work here: {reasons[wanted]}", f"There are: {there}.")
        raise UnknownName("method", name, chat.methods or (OFF,))
    chat.use(wanted, chat.draft_tokens)
    return f"Method {wanted} from the next round on."


def _use_length(chat: Conversation, text: str) -> str:
    if not text:
        return f"The draft length is {chat.draft_tokens or 'auto'}."
    if text != "auto" and not text.isdecimal():
        raise UsageError(f"The draft length is a number or auto, not {text!r}.", "For example: /draft 4")
    chat.use(chat.method, None if text == "auto" else int(text))
    return f"Draft length {text} from the next round on."


def _use_verifier(chat: Conversation, rule: str) -> str:
    if not rule:
        return f"The verifier is {chat.options.verifier}."
    named_verifier(rule)  # raises for one that is not there
    chat.options = replace(chat.options, verifier=rule)
    return f"Verifier {rule} from the next answer on."


def _system(chat: Conversation, text: str) -> str:
    if not text:
        return (
            f"The system prompt is: {chat.session.system}" if chat.session.system else "There is no system prompt."
        )
    chat.session.system = None if text == "-" else text
    return "The system prompt is gone." if text == "-" else "The system prompt is set from the next answer on."


def _set(chat: Conversation, text: str) -> str:
    name, _, value = text.replace("=", " ").strip().partition(" ")
    sampling = chat.options.sampling
    if not name:
        return "\n".join(
            f"{each.name} {each.shown(getattr(sampling, each.name))} (default {each.shown(each.default)})"
            for each in FIELDS.values()
        )
    wanted = field(name)
    if not value.strip():
        return f"{wanted.name} is {wanted.shown(getattr(sampling, wanted.name))}. {wanted.help}"
    read = wanted.read(value)
    set_sampling(chat, {wanted.name: read})
    return f"{wanted.name} is {wanted.shown(read)} from the next answer on."


def set_sampling(chat: Conversation, values: Mapping[str, int | float | None]) -> None:
    chat.options = replace(chat.options, sampling=changed(chat.options.sampling, values))


def _model(chat: Conversation, _: str) -> str:
    engine = chat.engine
    if not isinstance(engine, Ready):
        return "No model is loaded."
    files = [model.path for model in (engine.target, engine.draft) if model]
    lines = [f"{chat.options.title}: {engine.target.description}, context {engine.target.n_ctx:,} tokens", *files]
    lines += [f"methods: {', '.join(engine.methods)}"]
    return "\n".join([*lines, "Another model: quit, then localspec chat --pair NAME or --target FILE."])


def _regenerate(chat: Conversation, _: str) -> str:
    _refuse_while_running(chat)
    if not chat.answers:
        raise UsageError("There is no answer yet.", "Write a message first.")
    chat.regenerate()
    return ""


def _edit(chat: Conversation, text: str) -> str:
    _refuse_while_running(chat)
    own = [node for node in chat.session.path if node.message]
    if not own:
        raise UsageError("There is no message yet.", "Write one first.")
    if not text:
        assert own[-1].message is not None
        return f"Your last message was: {own[-1].message.text}\nWrite /edit and the new text to ask that instead."
    chat.edit(own[-1], text)
    return ""


def _stats(chat: Conversation, _: str) -> str:
    return footer(chat.shown) if chat.shown else "No answer yet."


def _reload(chat: Conversation, _: str) -> str:
    chat.start()
    return f"Loading {chat.options.title} ..."


def _refuse_while_running(chat: Conversation) -> None:
    if chat.running:
        raise LocalspecError("The answer is still being written.", "Stop it first, or wait.")


def _methods(chat: Conversation) -> Iterable[str]:
    return chat.methods


def _lengths(_: Conversation) -> Iterable[str]:
    return (str(length or "auto") for length in DRAFT_LENGTHS)


def _verifiers(_: Conversation) -> Iterable[str]:
    return "block", "token"


def _sampling(_: Conversation) -> Iterable[str]:
    return (f"{name} " for name in FIELDS)  # the space: a value comes after it


COMMANDS = (
    Command("method", "switch the drafting method, also in mid-answer", "NAME", _use_method, choices=_methods),
    Command("draft", "draft so many tokens a round", "N|auto", _use_length, ("k", "length"), _lengths),
    Command("verifier", "how drafts are checked", "block|token", _use_verifier, choices=_verifiers),
    Command("set", "show the sampling settings, or change one", "[NAME VALUE]", _set, choices=_sampling),
    Command("settings", "the sampling settings as a form", screen_only=True),
    Command("system", "show or set the system prompt; - removes it", "[TEXT]", _system),
    Command("model", "what is loaded", act=_model),
    Command("regenerate", "answer again, beside the last answer", act=_regenerate, aliases=("regen", "again")),
    Command("edit", "ask the last message in other words", "[TEXT]", _edit),
    Command("copy", "copy the last answer, or its last block of code", "[code]", choices=lambda _: ("code",)),
    Command("export", "write the statistics as JSON and CSV", "[FOLDER]"),
    Command("stats", "figures of the last answer", act=_stats),
    Command("tokens", "who proposed each token", screen_only=True),
    Command("theme", "change the colours", "NAME", screen_only=True),
    Command("reload", "load the model again", act=_reload),
    Command("help", "what there is to do", aliases=("?",)),
    Command("quit", "leave", aliases=("exit", "q")),
)
