"""What the slash commands do to a conversation, and what they say about it. Knows no command's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from localspec.chat.finding import named_session
from localspec.chat.session import Node
from localspec.chat.text import one_line
from localspec.chat.token_text import legend, token_text
from localspec.commands.copying import said
from localspec.commands.figures import figures
from localspec.commands.files import CONVERSATION
from localspec.commands.sampling_fields import FIELDS, changed, field
from localspec.conversation import DRAFT_LENGTHS, OFF, Conversation
from localspec.engine.messages import Ready
from localspec.errors import LocalspecError, UnknownName, UsageError
from localspec.methods import ALIASES
from localspec.spec.lossy import verifier as named_verifier

_SHOWN = 20  # sessions or messages in a list
_LINE = 70  # characters of a sibling in a list


def use_method(chat: Conversation, name: str) -> str:
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


def use_length(chat: Conversation, text: str) -> str:
    if not text:
        return f"The draft length is {chat.draft_tokens or 'auto'}."
    if text != "auto" and not text.isdecimal():
        raise UsageError(f"The draft length is a number or auto, not {text!r}.", "For example: /draft 4")
    chat.use(chat.method, None if text == "auto" else int(text))
    return f"Draft length {text} from the next round on."


def use_verifier(chat: Conversation, rule: str) -> str:
    if not rule:
        return f"The verifier is {chat.options.verifier}."
    named_verifier(rule)  # raises for one that is not there
    chat.options = replace(chat.options, verifier=rule)
    return f"Verifier {rule} from the next answer on."


def system(chat: Conversation, text: str) -> str:
    if not text:
        return (
            f"The system prompt is: {chat.session.system}" if chat.session.system else "There is no system prompt."
        )
    chat.set_system(None if text == "-" else text)
    return "The system prompt is gone." if text == "-" else "The system prompt is set from the next answer on."


def set_one(chat: Conversation, text: str) -> str:
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


def settings(chat: Conversation, _: str) -> str:
    return set_one(chat, "")


def set_sampling(chat: Conversation, values: Mapping[str, int | float | None]) -> None:
    chat.set_sampling(changed(chat.options.sampling, values))


def model(chat: Conversation, _: str) -> str:
    engine = chat.engine
    if not isinstance(engine, Ready):
        return "No model is loaded."
    files = [model.path for model in (engine.target, engine.draft) if model]
    lines = [f"{chat.options.title}: {engine.target.description}, context {engine.target.n_ctx:,} tokens", *files]
    lines += [f"methods: {', '.join(engine.methods)}"]
    return "\n".join([*lines, "Another one: /model with the name of a pair or the path of a file."])


def regenerate(chat: Conversation, _: str) -> str:
    _require_rest(chat)
    if not chat.session.path:
        raise UsageError("There is no answer yet.", "Write a message first.")
    _require_model(chat)
    chat.regenerate()
    return ""


def edit(chat: Conversation, text: str) -> str:
    _require_rest(chat)
    own = [node for node in chat.session.path if node.message]
    if not own:
        raise UsageError("There is no message yet.", "Write one first.")
    if not text:
        assert own[-1].message is not None
        return f"Your last message was: {own[-1].message.text}\nWrite /edit and the new text to ask that instead."
    _require_model(chat)
    chat.edit(own[-1], text)
    return ""


def sibling(chat: Conversation, which: str) -> str:
    """The others beside the last message or answer that has any; `which`: older, newer, or a number."""
    _require_rest(chat)
    node = next((node for node in reversed(chat.session.path) if len(node.siblings) > 1), None)
    if node is None:
        raise UsageError(
            "Nothing here was answered or asked twice.", "/regenerate answers again, /edit asks in other words."
        )
    place, count = node.place
    kind = "Message" if node.message else "Answer"
    if not which:
        listed = (f"{n}  {_beginning(chat, each)}" for n, each in enumerate(node.siblings, 1))
        return "\n".join([f"{kind} {place} of {count} is shown.", *listed])
    steps = {"older": place - 1, "newer": place + 1}
    wanted = int(which) if which.isdecimal() else steps.get(which, 0)
    if not 1 <= wanted <= count:
        raise UsageError(f"There is no {kind.lower()} {which!r} beside this one.", f"There are {count}: /sibling 1")
    chat.step(node, wanted - place)
    return f"{kind} {wanted} of {count}."


def go_on(chat: Conversation, _: str) -> str:
    chat.continue_answer()
    return ""


def drop(chat: Conversation, _: str) -> str:
    chat.drop_oldest()
    return ""


def new(chat: Conversation, _: str) -> str:
    chat.new_session()
    return "A new session; the one before is kept."


def sessions(chat: Conversation, words: str) -> str:
    if words:
        hits = chat.search(words, _SHOWN)
        return (
            "\n".join(f"{hit.session[:6]}  {hit.title}: {hit.line}" for hit in hits)
            or "No message has these words."
        )
    rows = chat.sessions(_SHOWN)
    listed = (f"{row.id[:6]}  {row.title or '(no message yet)'}  ({row.messages} messages)" for row in rows)
    return "\n".join(listed) or "There is no session yet."


def open_named(chat: Conversation, name: str) -> str:
    if not name:
        raise UsageError("Which session?", "/open with a title, or the beginning of an id. /sessions lists them.")
    chat.open_session(named_session(chat.sessions(), name).id)
    return f"{chat.title or 'The session'}: {len(chat.session.path)} messages."


def rename(chat: Conversation, title: str) -> str:
    chat.rename(title)
    return f"The session is called {chat.title}." if chat.title else "The session has no title yet."


def titles(chat: Conversation) -> Iterable[str]:
    return (row.title for row in chat.sessions(_SHOWN) if row.title)


def stats(chat: Conversation, _: str) -> str:
    return "\n".join(figures(chat))


def tokens(chat: Conversation, _: str) -> str:
    """As text; a screen has a view of its own."""
    if not chat.shown or not chat.shown.pieces:
        raise UsageError("There is no answer yet.", "Write a message first.")
    return "\n".join([token_text(chat.shown), "", *legend(chat.shown)])


def reload(chat: Conversation, _: str) -> str:
    chat.start()
    return f"Loading {chat.options.title} ..."


def _require_rest(chat: Conversation) -> None:
    if chat.running:
        raise LocalspecError("The answer is still being written.", "Stop it first, or wait.")


def _require_model(chat: Conversation) -> None:
    if not chat.methods:
        raise LocalspecError("No model is loaded.", "F8 loads it again.")


def _beginning(chat: Conversation, node: Node) -> str:
    return one_line(node.message.text if node.message else said(chat, node), _LINE)


def methods(chat: Conversation) -> Iterable[str]:
    return chat.methods


def lengths(_: Conversation) -> Iterable[str]:
    return (str(length or "auto") for length in DRAFT_LENGTHS)


def verifiers(_: Conversation) -> Iterable[str]:
    return "block", "token"


def sampling(_: Conversation) -> Iterable[str]:
    return (f"{name} " for name in FIELDS)  # the space: a value comes after it


def siblings(_: Conversation) -> Iterable[str]:
    return "older", "newer"


def exports(_: Conversation) -> Iterable[str]:
    return (CONVERSATION,)


def code(_: Conversation) -> Iterable[str]:
    return ("code",)
