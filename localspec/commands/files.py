"""What a chat writes into files: figures, the conversation, a trace of the last answer. Knows no widget.

`/export` alone, or with a folder, writes figures; `/export conversation` writes what was said, into the file that is
named or a new one. Only the word tells them apart: both can be JSON.
"""

from __future__ import annotations

import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

from localspec.chat import written
from localspec.chat.export import export_session
from localspec.chat.trace import free, header, save, taken
from localspec.conversation import Conversation
from localspec.errors import UsageError

CONVERSATION = "conversation"


def export(chat: Conversation, folder: Path, argument: str = "") -> tuple[Path, ...]:
    """Do what `/export` was told; returns the files. They go to `folder` where the user names no other place."""
    word, _, file = argument.partition(" ")
    if word == CONVERSATION:
        return (_conversation(chat, folder, file.strip()),)
    if argument.endswith(written.ENDINGS) and not Path(_path(argument)).is_dir():
        hint = f"/export {CONVERSATION} {argument} writes what was said."
        raise UsageError(f"The figures go to a folder, and {argument} is named like a file.", hint)
    if not chat.session.answers():
        raise UsageError("There is no answer yet, so there is nothing to export.")
    environment = asdict(chat.environment) if chat.environment else None
    place = Path(_path(argument)) if argument else folder
    return export_session(place, chat.session, environment, now=_now())


def save_trace(chat: Conversation, folder: Path) -> Path:
    """Of the last answer. Raises UsageError when there is none that is over, and LocalspecError from the disk."""
    if chat.running:
        raise UsageError("The answer is still being written.", "A trace holds a whole one.")
    if not chat.answers:
        raise UsageError("There is no answer yet.", "A trace is the record of one.")
    if chat.environment is None:
        raise UsageError("A trace says which model made it, and none is loaded yet.", "Wait for the model.")
    node = chat.answers[-1]
    answer, asked, question = node.answer, node.asked, node.parent
    assert answer and asked and question and question.message, "answers follow questions"
    if asked.model not in ("", chat.options.title):
        raise UsageError(
            f"Another model wrote this answer: {asked.model}.", "A trace is of the one that is loaded."
        )
    about = header(
        answer,
        title=chat.options.title,
        draft_tokens=asked.draft_tokens,
        verifier=asked.verifier,
        sampling=asked.sampling,
        environment=chat.environment,
        prompt=question.message.text,
        thinks=chat.opened(node),
    )
    path = free(folder, _stem())
    save(taken(answer, about), path)
    return path


def _conversation(chat: Conversation, folder: Path, file: str) -> Path:
    if not chat.session.path:
        raise UsageError("Nothing was said yet, so there is nothing to export.")
    path = Path(_path(file)) if file else free(folder, _stem(), ".md")
    written.save(chat.session, path, now=_now())
    return path


def _path(text: str) -> str:
    return os.path.expanduser(text)


def _stem() -> str:
    return f"localspec-{_now():%Y-%m-%d-%H%M%S}"


def _now() -> datetime:
    return datetime.now().astimezone()
