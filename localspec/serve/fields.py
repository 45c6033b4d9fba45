"""From the JSON body of a request to what the engine is asked for. Pure: raises Refused, touches nothing.

The names are OpenAI's; those that OpenAI lacks are llama-server's or vLLM's. A field that would change the answer
and can't be honoured is refused, never ignored.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from localspec.chat.message import Message
from localspec.engine.messages import Generate
from localspec.errors import LocalspecError
from localspec.serve.refusal import Refused, wrong
from localspec.serve.shaping import grammar, resumed, speculation
from localspec.serve.taking import Body, mistyped, take, text

Kind: TypeAlias = Literal["chat", "text"]

_ROLES: dict[str, Literal["system", "user", "assistant"]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
# Ours, theirs: the first that is given counts.
_SAMPLING: dict[str, tuple[type, tuple[str, ...]]] = {
    "temperature": (float, ("temperature",)),
    "top_p": (float, ("top_p",)),
    "top_k": (int, ("top_k",)),
    "min_p": (float, ("min_p",)),
    "seed": (int, ("seed",)),
    "presence_penalty": (float, ("presence_penalty",)),
    "frequency_penalty": (float, ("frequency_penalty",)),
    "repeat_penalty": (float, ("repetition_penalty", "repeat_penalty")),
    "penalty_last_n": (int, ("repeat_last_n", "penalty_last_n")),
}
_REFUSED = {
    "tools": "Tools are not supported.",
    "functions": "Functions are not supported.",
    "audio": "Only text is supported.",
    "echo": "The prompt is not echoed.",
    "suffix": "Text is not filled in before a suffix.",
}
_MOST_STOPS, _MOST_TOP = 16, 20


@dataclass(frozen=True, slots=True)
class Asked:
    """One request. `command` has no turn yet; `own`: the client is localspec and wants rounds as they are."""

    command: Generate
    kind: Kind
    stream: bool = False
    usage: bool = False  # in a last event of the stream
    own: bool = False
    chose: bool = False  # the request names a method


def parsed(raw: bytes) -> Body:
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise Refused(400, f"The body is no JSON: {reason}.", code="invalid_json") from None
    if not isinstance(body, dict):
        raise Refused(400, "The body must be a JSON object.", code="invalid_json")
    return body


def asked(body: Body, kind: Kind, defaults: Generate, most_tokens: int | None) -> Asked:
    """What this body asks for. `defaults` are the server's settings, `most_tokens` what one answer may have."""
    for name, why in _REFUSED.items():
        if body.get(name):
            raise Refused(400, why, param=name, code="unsupported_parameter")
    for name in ("n", "best_of"):
        if take(body, name, int, 1) != 1:
            raise Refused(400, f"{name} can only be 1: there is one answer.", param=name, code="unsupported_value")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise mistyped("stream_options", "an object", options)
    own = resumed(body)
    length = {name: own[name] for name in ("draft_tokens",) if name in own}
    chosen = dict(speculation(body.get("speculative_config")))
    try:
        command = replace(
            defaults,
            **_prompt(body, kind, defaults),
            **chosen | length,
            sampling=_sampling(body, defaults),
            max_tokens=_max_tokens(body, kind, most_tokens),
            stop=_stop(body, defaults),
            grammar=grammar(body),
            logprobs=_logprobs(body, kind),
            resume=own.get("resume", ()),
            remember=False,
        )
    except Refused:
        raise
    except LocalspecError as error:
        raise wrong(error) from None
    return Asked(
        command,
        kind,
        stream=bool(take(body, "stream", bool, False)),
        usage=bool(take(options, "include_usage", bool, False)),
        own="resume" in own,
        chose=bool(chosen),
    )


def _prompt(body: Body, kind: Kind, defaults: Generate) -> dict[str, Any]:
    """The server's own system prompt goes first where the request has none."""
    if kind == "chat":
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            raise Refused(400, "messages must be a list with something in it.", param="messages")
        read = tuple(_message(i, each) for i, each in enumerate(messages))
        own = () if any(each.role == "system" for each in read) else defaults.messages
        return {"messages": (*own, *read), "prompt": None}
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if isinstance(prompt, list):
        raise Refused(400, "prompt must be one text; token ids and lists are not supported.", param="prompt")
    return {"messages": (), "prompt": text("prompt", prompt)}


def _message(i: int, message: object) -> Message:
    where = f"messages[{i}]"
    if not isinstance(message, dict):
        raise mistyped(where, "an object", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise Refused(400, f"{where}.role must be one of {', '.join(_ROLES)}.", param=f"{where}.role")
    if message.get("tool_calls"):
        raise Refused(400, "Tools are not supported.", param=f"{where}.tool_calls", code="unsupported_parameter")
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    return Message(_ROLES[role], "".join(_part(f"{where}.content", part) for part in parts))


def _part(where: str, part: object) -> str:
    if not isinstance(part, dict) or part.get("type") != "text":
        raise Refused(400, f"{where}: only text is supported.", param=where, code="unsupported_value")
    return text(where, part.get("text"))


def _sampling(body: Body, defaults: Generate) -> Any:
    given: dict[str, Any] = {}
    for ours, (kind, theirs) in _SAMPLING.items():
        values = [value for name in theirs if (value := take(body, name, kind)) is not None]
        if values:
            given[ours] = None if ours == "seed" and values[0] == -1 else values[0]
    if given.get("top_k") == -1:
        given["top_k"] = 0
    if bias := body.get("logit_bias"):
        given["logit_bias"] = tuple(_biases(bias))
    return replace(defaults.sampling, **given)


def _biases(bias: object) -> Iterator[tuple[int, float]]:
    if not isinstance(bias, dict):
        raise mistyped("logit_bias", "an object", bias)
    for token in bias:
        if not token.isascii() or not token.isdecimal() or len(token) > 9:
            raise Refused(400, f"logit_bias: {token[:20]!r} is no token id.", param="logit_bias")
        yield int(token), take(bias, token, float, 0.0)


def _max_tokens(body: Body, kind: Kind, most: int | None) -> int | None:
    names = ("max_completion_tokens", "max_tokens") if kind == "chat" else ("max_tokens",)
    asked = next((value for name in names if (value := take(body, name, int)) is not None), None)
    if asked is None:
        return most
    if asked < 1:
        raise Refused(400, f"max_tokens is {asked}; it must be at least 1.", param="max_tokens")
    return int(asked) if most is None else min(int(asked), most)


def _stop(body: Body, defaults: Generate) -> tuple[str, ...]:
    stop = body.get("stop")
    if stop is None:
        return defaults.stop
    stops = [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or len(stops) > _MOST_STOPS:
        raise Refused(400, f"stop must be a text, or a list of at most {_MOST_STOPS}.", param="stop")
    if not all(text("stop", each) for each in stops):
        raise Refused(400, "stop holds an empty text, which stands everywhere.", param="stop")
    return tuple(stops)


def _logprobs(body: Body, kind: Kind) -> int | None:
    if kind == "text":
        name, count = "logprobs", take(body, "logprobs", int)
    else:
        name, count = "top_logprobs", take(body, "top_logprobs", int, 0)
        if not take(body, "logprobs", bool, False):
            return None
    if count is not None and not 0 <= count <= _MOST_TOP:
        raise Refused(400, f"{name} must be between 0 and {_MOST_TOP}.", param=name)
    return None if count is None else int(count)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")
