"""Chat templates: a thin function around the sandboxed Jinja formatter that llama-cpp-python brings along."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any


class TemplateError(Exception):
    """A template that can't be read, or that refused the conversation. chat/template.py knows what to do."""


def render(
    template: str,
    messages: Sequence[Mapping[str, Any]],
    *,
    bos: str,
    eos: str,
    add_generation_prompt: bool = True,
    **kwargs: Any,
) -> str:
    """The text of the conversation as the model was trained to see it."""
    try:
        formatter = _compiled(template, bos, eos, add_generation_prompt)
        prompt: str = formatter(messages=list(messages), **kwargs).prompt
    except Exception as error:  # a template is a program of somebody else's: it can raise anything
        raise TemplateError(str(error) or type(error).__name__) from error
    return prompt


@lru_cache(maxsize=8)
def _compiled(template: str, bos: str, eos: str, add_generation_prompt: bool) -> Any:
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter

    import localspec.llama.native  # noqa: F401 - catches the log before the rest of llama_cpp is loaded

    return Jinja2ChatFormatter(template, eos, bos, add_generation_prompt)
