"""What a request says about the shape of its answer and about speculation. Pure: raises Refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from localspec import vllm
from localspec.errors import LocalspecError
from localspec.grammar.automaton import Grammar
from localspec.grammar.schema import to_gbnf
from localspec.methods import canonical
from localspec.serve.refusal import Refused, wrong
from localspec.serve.taking import Body, mistyped, take


def grammar(body: Body) -> str | None:
    """The grammar behind `response_format`, or llama-server's `grammar`."""
    written = take(body, "grammar", str)
    form = body.get("response_format") or {}
    if not isinstance(form, dict):
        raise mistyped("response_format", "an object", form)
    name, kind = "response_format", form.get("type", "text")
    schema: object = None
    if kind == "json_object":
        schema = {"type": "object"}
    elif kind == "json_schema":
        holder = form.get("json_schema")
        schema = holder.get("schema") if isinstance(holder, dict) else None
        if not isinstance(schema, dict | bool):
            raise Refused(400, "response_format.json_schema.schema must be a schema.", param=name)
    elif kind != "text":
        raise Refused(400, "response_format.type is text, json_object or json_schema.", param=name)
    if schema is not None and written is not None:
        raise Refused(400, "grammar and response_format both hold the answer. Give one of them.", param="grammar")
    try:
        text = written if schema is None else to_gbnf(json.dumps(schema))
        if text is not None:
            Grammar(text)
    except LocalspecError as error:
        raise wrong(error, "grammar" if schema is None else name) from None
    return text


def speculation(config: object) -> Iterator[tuple[str, Any]]:
    """vLLM's --speculative-config, for one request."""
    name = "speculative_config"
    if config is None:
        return
    if not isinstance(config, dict):
        raise mistyped(name, "an object", config)
    try:
        found = vllm.settings(json.dumps(config))
    except LocalspecError as error:
        raise wrong(error, name) from None
    if "draft" in found:
        raise Refused(400, f"{name}.model: the draft is the one that the server has loaded.", param=name)
    if (method := take(found, "method", str)) is not None:
        try:
            yield "method", canonical(method)
        except LocalspecError as error:
            raise wrong(error, name) from None
    if (length := take(found, "draft_tokens", int)) is not None:
        if length < 0:
            raise Refused(400, f"{name}.num_speculative_tokens must not be negative.", param=name)
        yield "draft_tokens", length
    least, most = (take(found, key, int) for key in ("lookup_min", "lookup_max"))
    if least is not None or most is not None:
        least, most = least or 2, most or 32
        if not 2 <= least <= most:
            raise Refused(
                400, f"{name}: prompt_lookup_min is at least 2, and at most prompt_lookup_max.", param=name
            )
        yield "lookup", (least, most)


def resumed(body: Body) -> Body:
    """Between two localspecs: rounds as they are, and token ids after which to go on."""
    own = body.get("localspec")
    if own is None:
        return {}
    resume = own.get("resume", []) if isinstance(own, dict) else None
    if not isinstance(resume, list) or not all(type(i) is int and 0 <= i < 2**31 for i in resume):
        raise Refused(400, 'localspec must be an object such as {"resume": []}.', param="localspec")
    found: dict[str, Any] = {"resume": tuple(resume)}
    if "draft_tokens" in own:  # null: automatic, which vLLM has no word for
        found["draft_tokens"] = take(own, "draft_tokens", int)
    return found
