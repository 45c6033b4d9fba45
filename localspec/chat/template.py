"""Messages become the text that a model was trained on, by the template that its file brings.

Where that template can't take the messages as they are, another form is tried, and a notice says so. Knows no
tokens, no cache and no model; the Jinja sandbox is handed in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Protocol, TypeAlias

from localspec.chat.message import Message, Role
from localspec.chat.prompt import Rendered, Span, encode
from localspec.llama import jinja
from localspec.llama.jinja import TemplateError

__all__ = ["ChatTemplate", "Rendered", "Span", "encode"]

NO_TEMPLATE = "This model has no chat template, so the ChatML format is used."
BROKEN = "This model's chat template can't be used ({reason}), so the ChatML format is used."
NO_SYSTEM = "This model's chat template takes no system message, so its text was put before the first user message."
JOINED = "This model's chat template wants user and assistant in turn, so consecutive messages were joined."

CHATML_END = "<|im_end|>"
Turns: TypeAlias = list[tuple[Role, tuple[int, ...]]]  # a role and the numbers of the messages that it says

# A noncharacter of Unicode on each side: no template prints one.
_MARK = re.compile("\ufdd0([0-9]+)\ufdd1")


class Render(Protocol):
    """The Jinja sandbox; raises TemplateError."""

    def __call__(
        self,
        template: str,
        messages: list[dict[str, Any]],
        *,
        bos: str,
        eos: str,
        add_generation_prompt: bool = True,
        **kwargs: Any,
    ) -> str: ...


class ChatTemplate:
    """`source` is the Jinja text out of the GGUF, None where it has none."""

    def __init__(self, source: str | None, *, bos: str, eos: str, render: Render = jinja.render) -> None:
        self._source, self._bos, self._eos, self._jinja = source, bos, eos, render

    def render(self, messages: Sequence[Message], **options: Any) -> Rendered:
        """The text up to where the answer begins. `options` are variables for the template."""
        if self._source is None:
            return _chatml(messages, NO_TEMPLATE)
        reason = "it leaves the system message out"
        for turns, notices in _attempts(messages):
            try:
                rendered = self._attempt(turns, messages, notices, options)
            except TemplateError as error:
                reason = str(error).partition("\n")[0].rstrip(".")
                continue
            if rendered is not None:
                return rendered
        return _chatml(messages, BROKEN.format(reason=reason))

    def _attempt(
        self, turns: Turns, messages: Sequence[Message], notices: tuple[str, ...], options: dict[str, Any]
    ) -> Rendered | None:
        """None when the template silently leaves the system message out."""
        texts = [message.text for message in messages]
        marks = _marks(texts)
        text = self._fill(turns, texts, options)
        try:
            frame = self._fill(turns, marks, options)
        except TemplateError:  # it looks into the messages
            return Rendered(text, notices, _searched(text, texts))
        if any(marks[i].strip() not in frame for role, parts in turns if role == "system" for i in parts):
            return None
        return Rendered(text, notices, _spans(text, frame, texts))

    def _fill(self, turns: Turns, texts: Sequence[str], options: dict[str, Any]) -> str:
        assert self._source is not None
        filled: list[dict[str, Any]] = [{"role": role, "content": _say(parts, texts)} for role, parts in turns]
        return self._jinja(self._source, filled, bos=self._bos, eos=self._eos, **options)


def _attempts(messages: Sequence[Message]) -> Iterator[tuple[Turns, tuple[str, ...]]]:
    """The messages as they are, then in the forms that strict templates want; the least change first."""
    plain: Turns = [(message.role, (i,)) for i, message in enumerate(messages)]
    tried: list[Turns] = []
    for notices in ((), (NO_SYSTEM,), (JOINED,), (NO_SYSTEM, JOINED)):
        turns = _without_system(plain) if NO_SYSTEM in notices else plain
        turns = _joined(turns) if JOINED in notices else turns
        if turns not in tried:
            tried.append(turns)
            yield turns, notices


def _without_system(turns: Turns) -> Turns:
    merged: Turns = []
    waiting: tuple[int, ...] = ()
    for role, parts in turns:
        if role == "system":
            waiting += parts
        elif role == "user":
            merged.append((role, waiting + parts))
            waiting = ()
        else:
            merged.append((role, parts))
    return [*merged, ("user", waiting)] if waiting else merged


def _joined(turns: Turns) -> Turns:
    return [
        (role, tuple(i for _, parts in group for i in parts)) for role, group in groupby(turns, key=lambda t: t[0])
    ]


def _say(parts: tuple[int, ...], texts: Sequence[str]) -> str:
    return "\n\n".join(texts[i] for i in parts if texts[i].strip() or len(parts) == 1)


def _marks(texts: Sequence[str]) -> list[str]:
    return [f"\ufdd0{i}\ufdd1" if text.strip() else text for i, text in enumerate(texts)]


def _chatml(messages: Sequence[Message], notice: str) -> Rendered:
    def fill(texts: Sequence[str]) -> str:
        turns = zip(messages, texts, strict=True)
        body = "".join(f"<|im_start|>{message.role}\n{text}{CHATML_END}\n" for message, text in turns)
        return body + "<|im_start|>assistant\n"

    texts = [message.text for message in messages]
    text = fill(texts)
    # A model that doesn't know the format may spell its end in letters.
    return Rendered(text, (notice,), _spans(text, fill(_marks(texts)), texts), (CHATML_END,))


def _spans(text: str, frame: str, texts: Sequence[str]) -> tuple[Span, ...]:
    """Where each message stands in `text`, found by means of `frame`: the same rendering with marks for messages.

    The frame filled again must give the text from end to end; where it doesn't, the messages are searched for.
    """
    first, *rest = _MARK.split(frame)
    if not text.startswith(first):
        return _searched(text, texts)
    spans, at = [], len(first)
    for number, literal in zip(map(int, rest[::2]), rest[1::2], strict=True):
        end = _end(text, at, texts[number], literal)
        if end < 0:
            return _searched(text, texts)
        spans.append(Span(at, end, number))
        at = end + len(literal)
    return tuple(spans) if at == len(text) else _searched(text, texts)


def _searched(text: str, texts: Sequence[str]) -> tuple[Span, ...]:
    """The second best: a short message may be found inside a word of the template, but never as another text."""
    spans: list[Span] = []
    at = 0
    for number, message in enumerate(texts):
        said = message if message in text[at:] else message.strip()
        start = text.find(said, at) if said else -1
        if start >= 0:
            at = start + len(said)
            spans.append(Span(start, at, number))
    return tuple(spans)


def _end(text: str, at: int, message: str, literal: str) -> int:
    """Where the message that begins at `at` ends: as it is, or where the template goes on after changing it."""
    whole = at + len(message)
    if text.startswith(message, at) and text.startswith(literal, whole):
        return whole
    return text.find(literal, at)
