"""What editors and scripts see: the official client and curl against a real server."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from localspec.chat.answer import Answer
from tests.engine.driver import Driver
from tests.serve.conftest import PATIENCE_S, Server

TEXT = "abcabcabcabc"
HELLO: Any = [{"role": "user", "content": TEXT}]
LOOKUP = {"speculative_config": {"method": "ngram", "num_speculative_tokens": 4}}


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=PATIENCE_S) as client:
        yield client


@pytest.fixture(scope="module")
def local(noise: str) -> Answer:
    """The same greedy answer without a server."""
    driver = Driver(noise, threads=1)
    try:
        return driver.ask(TEXT, method="off", draft_tokens=None, max_tokens=60)
    finally:
        driver.close()


def test_whole_answer_is_the_local_text(client: openai.OpenAI, local: Answer) -> None:
    done = client.chat.completions.create(model="noise", messages=HELLO, temperature=0, max_tokens=60)
    assert done.choices[0].message.content == local.text
    assert done.choices[0].finish_reason == "length"
    assert done.usage is not None
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (local.prompt_tokens, 60)


@pytest.mark.parametrize("extra", [{}, LOOKUP], ids=["as started", "lookup"])
def test_streamed_answer_is_the_local_text(client: openai.OpenAI, local: Answer, extra: dict[str, Any]) -> None:
    stream = client.chat.completions.create(
        model="noise",
        messages=HELLO,
        temperature=0,
        max_tokens=60,
        stream=True,
        stream_options={"include_usage": True},
        extra_body=extra,
    )
    parts = list(stream)
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == local.text
    assert [part.choices[0].finish_reason for part in parts if part.choices][-1] == "length"
    assert parts[-1].choices == []
    assert parts[-1].usage is not None
    assert parts[-1].usage.completion_tokens == 60


def test_timings_are_llama_servers_and_count_drafts(server: Server) -> None:
    timings = server.chat(TEXT, temperature=0, max_tokens=60, **LOOKUP).json()["timings"]
    assert timings["predicted_n"] == 60
    assert timings["predicted_per_second"] == pytest.approx(60_000 / timings["predicted_ms"])
    assert timings["cache_n"] + timings["prompt_n"] == 29
    assert timings["draft_n"] > 0
    assert 0 <= timings["draft_n_accepted"] <= timings["draft_n"]
    off = server.chat(TEXT, temperature=0, max_tokens=5, speculative_config={"method": "off"}).json()["timings"]
    assert "draft_n" not in off


def test_counters_of_metrics_grow_by_what_timings_say(server: Server) -> None:
    names = ("draft_tokens", "accepted_tokens", "accepted_tokens_per_pos", "drafts")
    before = [server.counter(f"vllm:spec_decode_num_{name}_total") for name in names]
    timings = server.chat(TEXT, temperature=0, max_tokens=60, **LOOKUP).json()["timings"]
    after = [server.counter(f"vllm:spec_decode_num_{name}_total") for name in names]
    drafted, accepted, placed, drafts = (b - a for a, b in zip(before, after, strict=True))
    assert (drafted, accepted) == (timings["draft_n"], timings["draft_n_accepted"])
    assert placed == accepted
    assert 0 < drafts <= drafted


def test_plain_completion_is_the_local_one(client: openai.OpenAI, noise: str) -> None:
    done = client.completions.create(model="noise", prompt=TEXT, temperature=0, max_tokens=20)
    streamed = client.completions.create(model="noise", prompt=TEXT, temperature=0, max_tokens=20, stream=True)
    assert done.choices[0].text == "".join(part.choices[0].text for part in streamed)
    assert done.usage is not None
    assert done.usage.prompt_tokens == len(TEXT)


def test_logprobs_are_those_of_the_engine(client: openai.OpenAI, noise: str) -> None:
    driver = Driver(noise, threads=1)
    own = driver.ask(TEXT, method="off", max_tokens=10, logprobs=2)
    driver.close()
    likely = [each for made in own.rounds for each in made.logprobs]
    done = client.chat.completions.create(
        model="noise", messages=HELLO, temperature=0, max_tokens=10, logprobs=True, top_logprobs=2
    )
    held = done.choices[0].logprobs
    assert held is not None and held.content is not None
    assert [each.logprob for each in held.content] == pytest.approx([each.logprob for each in likely], abs=1e-4)
    assert [each.bytes for each in held.content] == [[each.token - 3] for each in likely]
    assert all(len(each.top_logprobs) == 2 for each in held.content)


def test_logprobs_of_plain_completions_have_offsets(client: openai.OpenAI) -> None:
    done = client.completions.create(model="noise", prompt=TEXT, temperature=0, max_tokens=6, logprobs=1)
    held = done.choices[0].logprobs
    assert held is not None and held.tokens and held.text_offset and held.token_logprobs
    assert len(held.tokens) == len(held.token_logprobs) == 6
    assert held.text_offset[0] == 0


def test_seed_repeats_an_answer(server: Server) -> None:
    texts = [server.chat(temperature=1, seed=s, max_tokens=20).json()["choices"][0] for s in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_stop_ends_the_text_before_it(server: Server, local: Answer) -> None:
    stop = local.text[10:12]
    choice = server.chat(TEXT, temperature=0, max_tokens=60, stop=stop).json()["choices"][0]
    assert choice["message"]["content"] == local.text[: local.text.index(stop)]
    assert choice["finish_reason"] == "stop"


def test_answer_follows_a_schema(server: Server) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    answer = server.chat(response_format=form, max_tokens=200, seed=1).json()["choices"][0]["message"]["content"]
    assert isinstance(json.loads(answer)["n"], int)


def test_any_json_object(server: Server) -> None:
    form = {"type": "json_object"}
    answer = server.chat(response_format=form, max_tokens=600, temperature=0.3, seed=2).json()["choices"][0]
    assert answer["message"]["content"].startswith("{")
    if answer["finish_reason"] == "stop":
        json.loads(answer["message"]["content"])


def test_models_say_what_is_loaded(client: openai.OpenAI) -> None:
    [card] = client.models.list().data
    assert card.id == "noise"
    assert client.models.retrieve("noise").owned_by == "localspec"
    assert card.model_dump()["max_model_len"] == 2048
    assert "lookup" in card.model_dump()["speculation"]["methods"]


def test_errors_are_the_clients_exceptions(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError, match="noise"):
        client.chat.completions.create(model="gpt-4", messages=HELLO)
    with pytest.raises(openai.BadRequestError, match="temperature") as wrong:
        client.chat.completions.create(model="noise", messages=HELLO, temperature=-1)
    assert wrong.value.param == "temperature"
    with pytest.raises(openai.BadRequestError) as long:
        client.chat.completions.create(
            model="noise", messages=[{"role": "user", "content": "a" * 5000}], stream=True
        )
    assert long.value.code == "context_length_exceeded"


def test_method_that_does_not_work_here_is_refused_with_the_reason(server: Server) -> None:
    refused = server.chat(speculative_config={"method": "eagle3"})
    assert refused.status_code == 400
    assert "no eagle3 head" in refused.json()["error"]["message"]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(server: Server, local: Answer) -> None:
    body = json.dumps({"messages": HELLO, "temperature": 0, "max_tokens": 60})
    command = [
        "curl",
        "-sS",
        f"{server.url}/v1/chat/completions",
        "-H",
        "Content-Type: application/json",
        "-d",
        body,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S)
    assert json.loads(done.stdout)["choices"][0]["message"]["content"] == local.text


@pytest.mark.parametrize("path, status", [("/nowhere", 404), ("/v1/chat/completions", 405), ("/v1/models/x", 404)])
def test_wrong_paths_are_error_objects(server: Server, path: str, status: int) -> None:
    refused = server.get(path)
    assert refused.status_code == status
    assert refused.json()["error"]["message"]
