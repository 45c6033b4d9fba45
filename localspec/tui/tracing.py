"""F9: the last answer with all its rounds as a file, for `localspec replay`, and a word about where it is."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from localspec.chat.trace import free, header, save, taken
from localspec.conversation import Conversation
from localspec.engine.messages import Ready
from localspec.errors import UsageError


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
    about = header(
        answer,
        title=chat.options.title,
        draft_tokens=asked.draft_tokens,
        verifier=asked.verifier,
        sampling=asked.sampling,
        environment=chat.environment,
        prompt=question.message.text,
        thinks=isinstance(chat.engine, Ready) and chat.engine.thinks,
    )
    path = free(folder, f"localspec-{datetime.now().astimezone():%Y-%m-%d-%H%M%S}")
    save(taken(answer, about), path)
    return path
