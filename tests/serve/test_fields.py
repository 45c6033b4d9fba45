"""Requests as clients send them, right and wrong, without a server."""

from __future__ import annotations

import json
from typing import Any

import pytest

from localspec.chat.message import Message
from localspec.engine.messages import Generate
from localspec.serve.fields import asked, parsed
from localspec.serve.refusal import Refused
from localspec.spec.settings import Sampling

DEFAULTS = Generate(turn=0, sampling=Sampling(temperature=0.5, top_k=7), method="lookup", draft_tokens=3)
HELLO = [{"role": "user", "content": "hello"}]


def chat(**fields: Any) -> Generate:
    return asked({"messages": HELLO, **fields}, "chat", DEFAULTS, None).command


def test_what_a_request_does_not_say_is_the_servers() -> None:
    command = chat()
    assert command.sampling == DEFAULTS.sampling
    assert (command.method, command.draft_tokens, command.max_tokens) == ("lookup", 3, None)
    assert command.messages == (Message("user", "hello"),)
    assert not command.remember


def test_null_is_as_good_as_absent() -> None:
    names = ("temperature", "seed", "stop", "max_tokens", "logprobs", "response_format", "tools", "stream", "n")
    assert chat(**dict.fromkeys(names)) == chat()


def test_every_sampling_field_arrives() -> None:
    fields = {"temperature": 0, "top_p": 0.5, "top_k": 3, "min_p": 0.1, "seed": 4}
    penalties = {"presence_penalty": 1, "frequency_penalty": -1, "repetition_penalty": 1.2, "repeat_last_n": 9}
    expected = Sampling(0, 3, 0.5, 0.1, 1.2, 1, -1, 9, 4, ((12, -100.0),))
    assert chat(**fields, **penalties, logit_bias={"12": -100}).sampling == expected


@pytest.mark.parametrize("field", [{"top_k": -1}, {"top_k": 0}])
def test_top_k_can_be_switched_off_in_both_ways(field: dict[str, int]) -> None:
    assert chat(**field).sampling.top_k == 0


def test_seed_of_minus_one_is_random() -> None:
    assert chat(seed=-1).sampling.seed is None


def test_newer_name_of_the_token_limit_counts() -> None:
    assert chat(max_completion_tokens=5, max_tokens=9).max_tokens == 5
    assert asked({"messages": HELLO, "max_tokens": 50}, "chat", DEFAULTS, 20).command.max_tokens == 20
    assert asked({"messages": HELLO}, "chat", DEFAULTS, 20).command.max_tokens == 20


def test_messages_in_parts_and_developers() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": "d"}, {"role": "user", "content": parts}]
    command = asked({"messages": messages}, "chat", DEFAULTS, None).command
    assert command.messages == (Message("system", "d"), Message("user", "ab"))


def test_servers_system_prompt_stands_in_for_a_missing_one() -> None:
    defaults = Generate(turn=0, messages=(Message("system", "ours"),))
    theirs = [{"role": "system", "content": "theirs"}, *HELLO]
    assert asked({"messages": HELLO}, "chat", defaults, None).command.messages[0].text == "ours"
    assert [m.text for m in asked({"messages": theirs}, "chat", defaults, None).command.messages] == [
        "theirs",
        "hello",
    ]
    assert asked({"prompt": "x"}, "text", defaults, None).command.messages == ()


def test_speculative_config_is_vllms() -> None:
    config = {"method": "ngram", "num_speculative_tokens": 5, "prompt_lookup_min": 3, "prompt_lookup_max": 4}
    command = chat(speculative_config=config)
    assert (command.method, command.draft_tokens, command.lookup) == ("lookup", 5, (3, 4))


def test_response_format_becomes_a_grammar() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    held = chat(response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}).grammar
    assert held is not None and '"\\"a\\""' in held
    assert chat(response_format={"type": "json_object"}).grammar is not None
    assert chat(response_format={"type": "text"}).grammar is None


def test_logprobs_of_both_kinds() -> None:
    assert chat(logprobs=True, top_logprobs=3).logprobs == 3
    assert chat(logprobs=True).logprobs == 0
    assert chat(top_logprobs=3).logprobs is None
    assert asked({"prompt": "x", "logprobs": 2}, "text", DEFAULTS, None).command.logprobs == 2


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no messages": ({"messages": []}, "messages"),
    "messages that are none": ({"messages": "hello"}, "messages"),
    "unknown role": ({"messages": [{"role": "tool", "content": ""}]}, "messages[0].role"),
    "role that is a list": ({"messages": [{"role": [], "content": ""}]}, "messages[0].role"),
    "picture": ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
    "no content": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "half a surrogate pair": ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages[0].content"),
    "temperature as text": ({"temperature": "1"}, "temperature"),
    "temperature out of range": ({"temperature": -1}, "temperature"),
    "temperature beyond numbers": ({"temperature": 10**400}, "temperature"),
    "true for a number": ({"top_k": True}, "top_k"),
    "fraction for a whole number": ({"max_tokens": 1.5}, "max_tokens"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "top-p of zero": ({"top_p": 0}, "top_p"),
    "two answers": ({"n": 2}, "n"),
    "tools": ({"tools": [{}]}, "tools"),
    "empty stop": ({"stop": [""]}, "stop"),
    "too many stops": ({"stop": ["x"] * 17}, "stop"),
    "stop that is a number": ({"stop": 3}, "stop"),
    "bias of no token": ({"logit_bias": {"a": 1}}, "logit_bias"),
    "too many alternatives": ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    "unknown format": ({"response_format": {"type": "xml"}}, "response_format"),
    "format without schema": ({"response_format": {"type": "json_schema"}}, "response_format"),
    "schema that can't be": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": {"$ref": "#"}}}},
        "response_format",
    ),
    "broken grammar": ({"grammar": "root = x"}, "grammar"),
    "unknown method": ({"speculative_config": {"method": "lokup"}}, "speculative_config"),
    "unknown field of it": ({"speculative_config": {"metod": "x"}}, "speculative_config"),
    "another draft": ({"speculative_config": {"model": "x.gguf"}}, "speculative_config"),
    "length as text": ({"speculative_config": {"num_speculative_tokens": "5"}}, "draft_tokens"),
    "matches the wrong way round": (
        {"speculative_config": {"prompt_lookup_min": 5, "prompt_lookup_max": 3}},
        "speculative_config",
    ),
    "usage that is no switch": ({"stream_options": {"include_usage": 1}}, "include_usage"),
    "tokens to go on after": ({"localspec": {"resume": [-1]}}, "localspec"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_fields_are_named(case: str) -> None:
    fields, param = WRONG[case]
    with pytest.raises(Refused) as refused:
        chat(**fields)
    assert refused.value.status == 400
    assert refused.value.param == param
    assert "--" not in refused.value.message.replace("--speculative-config", "")


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b"\xff", b'{"a": NaN}', b"[" * 100_000, b'{"seed": ' + b"9" * 5000 + b"}", b"null"]
)
def test_what_is_no_json_object_is_said_to_be_none(raw: bytes) -> None:
    with pytest.raises(Refused) as refused:
        parsed(raw)
    assert refused.value.code == "invalid_json"


@pytest.mark.parametrize("prompt", [None, 3, [1, 2], ["a", "b"], [[1]], []])
def test_prompt_is_one_text(prompt: object) -> None:
    with pytest.raises(Refused):
        asked({"prompt": prompt}, "text", DEFAULTS, None)


def test_error_has_the_shape_that_clients_read() -> None:
    body = Refused(429, "Full.", param="x", code="y").body
    assert json.loads(json.dumps(body)) == {
        "error": {"message": "Full.", "type": "rate_limit_error", "param": "x", "code": "y"}
    }
