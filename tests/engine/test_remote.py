"""The remote engine against servers of several makes, played, and against a real `localspec serve`."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from localspec.chat.answer import Answer
from localspec.chat.figures import footer
from localspec.chat.message import Message
from localspec.chat.reported import Reported
from localspec.chat.thinking import parts
from localspec.conversation import Conversation, Options
from localspec.engine.messages import (
    Emitted,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Notice,
    Prefill,
    Ready,
    Stop,
    Use,
)
from localspec.engine.remote import Address, RemoteClient, RemoteEngine
from localspec.engine.remote import engine as remote
from localspec.errors import UsageError
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.engine.driver import Driver
from tests.engine.stand_in import DONE, StandIn, ended, hang_up, said, wait_for
from tests.serve.conftest import Server, Start, eventually, start  # noqa: F401  (a fixture)

KEY = "a-key-that-is-secret"
TEXT = "abcabcabcabc"
LOAD = Load(ModelSpec("server"))
USAGE = {"prompt_tokens": 7, "completion_tokens": 9, "prompt_tokens_details": {"cached_tokens": 3}}


class Asking:
    """A remote engine whose events are kept; `on_event` may put commands into its inbox."""

    def __init__(self, url: str, model: str | None = None, key: str | None = None) -> None:
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] = lambda event: None
        self.engine = RemoteEngine(Address.of(url, model, key), self._take)
        self.engine.handle(LOAD)

    def ask(self, text: str = "hello", **options: Any) -> Answer:
        options.setdefault("sampling", Sampling(temperature=0, seed=1))
        options.setdefault("method", "server")
        self.events.clear()
        self.engine.handle(Generate(1, messages=(Message("user", text),), **options))
        answer = Answer(options["method"])
        for event in self.events:
            match event:
                case Emitted():
                    answer.extend(event.rounds, event.pieces, event.names)
                case Finished():
                    answer.end(event)
                case Failed():
                    answer.error = f"{event.message} {event.hint}"
        return answer

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self.on_event(event)


@pytest.fixture
def asking() -> Iterator[Callable[..., Asking]]:
    opened: list[Asking] = []

    def one(url: str, *more: Any) -> Asking:
        opened.append(Asking(url, *more))
        return opened[-1]

    yield one
    for each in opened:
        each.engine.close()


@pytest.fixture
def stand_in() -> Iterator[Callable[..., StandIn]]:
    opened: list[StandIn] = []

    def one(*owner: str, **card: Any) -> StandIn:
        opened.append(StandIn(*owner, **card))
        return opened[-1]

    yield one
    for each in opened:
        each.close()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "_PAUSES_S", (0.0, 0.0, 0.0))


Ask, Play = Callable[..., Asking], Callable[..., StandIn]


def test_text_arrives_piece_by_piece_and_ends(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.play(said("Good "), said("day."), ended(usage=USAGE), DONE)
    answer = asking(server.url).ask()
    assert answer.text == "Good day."
    assert answer.finish is Finish.STOP
    assert [piece.text for piece in answer.pieces] == ["Good ", "day."]
    assert (answer.prompt_tokens, answer.reused_tokens) == (7, 3)


def test_separators_inside_of_json_do_not_end_a_line(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    text = "a\u2028b\x85c\x0bd"
    server.play(b": ping\n\nevent: x\n" + said(text), ended().replace(b"\n", b"\r\n"), DONE)
    assert asking(server.url).ask().text == text


def test_llama_servers_timings_give_drafts_and_times(asking: Ask, stand_in: Play) -> None:
    server = stand_in("llamacpp")
    server.pages["/props"] = b'{"default_generation_settings": {"n_ctx": 4096}}'
    timings = {"prompt_ms": 250.0, "predicted_ms": 3000.0, "predicted_n": 9, "draft_n": 8, "draft_n_accepted": 6}
    server.play(said("Good day."), ended("length", timings=timings, usage=USAGE), DONE)
    client = asking(server.url)
    [ready] = client.of(Ready)
    assert ready.target.n_ctx == 4096
    answer = client.ask()
    assert answer.reported == Reported("llama-server", 9, 8, 6)
    assert (answer.prefill_s, answer.decode_s) == (0.25, 3.0)
    assert answer.finish is Finish.LENGTH
    assert "9 tokens · 3.0 tok/s · 75 % of drafts accepted, says llama-server" in footer(answer)
    assert server.bodies[0]["repeat_penalty"] == 1.0


def metrics(drafts: int, drafted: int, accepted: int) -> bytes:
    """Two engines, as vLLM's documentation shows the format."""
    rows = {"drafts": drafts, "draft_tokens": drafted, "accepted_tokens": accepted}
    lines = ["# TYPE vllm:spec_decode_num_drafts_total counter"]
    for name, value in rows.items():
        for engine, n in enumerate((value, 100)):
            lines.append(f'vllm:spec_decode_num_{name}_total{{engine="{engine}",model_name="m"}} {float(n)}')
    lines.append('vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 77.0')
    return "\n".join(lines).encode()


def test_vllms_counters_are_compared_before_and_after(asking: Ask, stand_in: Play) -> None:
    server = stand_in("vllm", max_model_len=2048)
    server.pages["/metrics"] = metrics(10, 30, 20)

    def count(_: object) -> None:
        server.pages["/metrics"] = metrics(14, 46, 32)

    server.play(said("Good day."), count, ended(usage=USAGE), DONE)
    client = asking(server.url)
    answer = client.ask(sampling=Sampling(top_k=0, repeat_penalty=1.1))
    assert answer.reported == Reported("vLLM", 9, 16, 12, 4)
    assert server.bodies[0]["top_k"] == -1
    assert server.bodies[0]["repetition_penalty"] == 1.1


@pytest.mark.parametrize("before", [b"", b"<html>", metrics(99, 99, 99)])
def test_counters_that_say_nothing_are_unknown(asking: Ask, stand_in: Play, before: bytes) -> None:
    server = stand_in("vllm")
    server.pages["/metrics"] = before

    def count(_: object) -> None:
        server.pages["/metrics"] = metrics(1, 1, 1)

    server.play(said("x"), count, ended(usage=USAGE), DONE)
    assert asking(server.url).ask().reported == Reported("vLLM", 9)


def test_other_servers_acceptance_is_unknown_and_they_get_no_strange_fields(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.play(said("x"), ended(), DONE)
    client = asking(server.url)
    assert any("the rest is its own" in notice.text for notice in client.of(Notice))
    answer = client.ask()
    assert "acceptance unknown" in footer(answer)
    assert server.bodies[0].keys() <= {
        *("model", "messages", "stream", "stream_options", "temperature", "top_p", "seed"),
        *("presence_penalty", "frequency_penalty"),
    }


def test_server_that_decides_offers_no_methods(asking: Ask, stand_in: Play) -> None:
    server = stand_in("llamacpp")
    client = asking(server.url)
    [ready] = client.of(Ready)
    assert ready.methods == ("server",)
    server.play(said("x"), said("y"), ended(), DONE)
    client.on_event = lambda event: client.engine.inbox.put(Use("off")) if isinstance(event, Emitted) else None
    assert client.ask().text == "xy"
    assert [notice.text for notice in client.of(Notice)] == ["The server decides how it drafts."]


def test_thoughts_that_come_apart_are_put_where_the_model_wrote_them(asking: Ask, stand_in: Play) -> None:
    server = stand_in("llamacpp")
    thought = [{"delta": {"reasoning_content": text}} for text in ("Let me ", "see.")]
    server.play(
        *(b"data: " + json.dumps({"choices": [each]}).encode() + b"\n\n" for each in thought),
        said("Hello."),
        ended(),
        DONE,
    )
    found = parts(asking(server.url).ask().text, ended=True)
    assert (found.thought, found.said) == ("Let me see.", "Hello.")


def test_seed_is_chosen_here_so_that_it_can_be_shown(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.play(said("x"), ended(), DONE)
    answer = asking(server.url).ask(sampling=Sampling())
    assert answer.seed == server.bodies[0]["seed"]


# What goes wrong


def test_nobody_there_is_a_sentence(asking: Ask) -> None:
    [failed] = asking("http://127.0.0.1:9").of(Failed)
    assert failed.message.startswith("Cannot reach http://127.0.0.1:9")


def test_server_that_dies_in_mid_answer_leaves_what_was_written(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.play(said("Good "), hang_up)
    answer = asking(server.url).ask()
    assert answer.text == "Good "
    assert answer.error is not None and "broke" in answer.error
    assert len(server.bodies) == 1, "what was begun is not asked again"


def test_server_that_stalls_in_mid_answer_leaves_what_was_written(
    asking: Ask, stand_in: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "_WRITING_S", 0.2)
    server, gate = stand_in(), threading.Event()
    server.play(said("Good "), wait_for(gate))
    answer = asking(server.url).ask()
    gate.set()
    assert answer.text == "Good "
    assert answer.error is not None and "silent" in answer.error


def test_server_that_dies_before_the_first_word_is_asked_again(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.play(hang_up)
    server.play(b'{"error": {"message": "busy"}}', status=429, Retry_After="0")
    server.play(b"", status=503)
    server.play(said("x"), ended(), DONE)
    client = asking(server.url)
    assert client.ask().text == "x"
    assert any("Trying again." in notice.text for notice in client.of(Notice))


def test_server_that_stays_busy_is_given_up(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    for _ in range(4):
        server.play(b'{"error": {"message": "all slots are taken"}}', status=429)
    answer = asking(server.url).ask()
    assert answer.error is not None and "all slots are taken" in answer.error
    assert len(server.bodies) == 4


def test_wrong_request_is_not_repeated(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.play(b'{"error": {"message": "too long"}}', status=400)
    answer = asking(server.url).ask()
    assert answer.error is not None and "too long" in answer.error
    assert len(server.bodies) == 1


NONSENSE = {
    "no json": b"data: {\n\n",
    "no object": b"data: 3\n\n",
    "choices that are none": b'data: {"choices": 3}\n\n',
    "text that is none": b'data: {"choices": [{"delta": {"content": {}}}]}\n\n',
    "error in mid-stream": b'data: {"error": {"message": "out of memory"}}\n\n',
    "a page": b"<html>\n</html>\n",
    "nothing": b"",
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_a_sentence(asking: Ask, stand_in: Play, case: str) -> None:
    server = stand_in()
    server.play(said("Good "), NONSENSE[case])
    answer = asking(server.url).ask()
    assert answer.text == "Good "
    assert answer.error is not None and "Internal error" not in answer.error


@pytest.mark.parametrize("status", [401, 403])
def test_key_is_sent_and_never_shown(asking: Ask, stand_in: Play, status: int) -> None:
    server = stand_in()
    server.play(f'{{"error": {{"message": "Incorrect key: {KEY}"}}}}'.encode(), status=status)
    client = asking(server.url, None, KEY)
    answer = client.ask()
    assert server.headers[-1]["Authorization"] == f"Bearer {KEY}"
    assert answer.error is not None and "--server-key-file" in answer.error
    assert KEY not in answer.error
    assert KEY not in repr(client.engine._address)


def test_key_that_others_can_read_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Address.of("http://example.org", None, KEY).is_readable
    assert not Address.of("https://example.org", None, KEY).is_readable
    assert not Address.of("http://[::1]:8080/v1", None, KEY).is_readable


@pytest.mark.parametrize(
    "url", ["", "example.org", "ftp://x", "http://", "http://a:b@x", "http://x?y", "http://x:y"]
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        Address.of(url)


def test_one_of_several_models_must_be_named(asking: Ask, stand_in: Play) -> None:
    server = stand_in()
    server.models([{"id": "a"}, {"id": "b"}])
    [failed] = asking(server.url).of(Failed)
    assert "a, b" in failed.message and "--model" in failed.hint
    [failed] = asking(server.url, "c").of(Failed)
    assert "'c'" in failed.message
    assert asking(server.url, "b").of(Ready)


@pytest.mark.parametrize("page", [b"", b"[]", b"<html>", b'{"data": 3}', b'{"data": [3]}'])
def test_page_that_lists_no_models_is_a_sentence(asking: Ask, stand_in: Play, page: bytes) -> None:
    server = stand_in()
    server.pages["/v1/models"] = page
    [failed] = asking(server.url).of(Failed)
    assert "Internal error" not in failed.message


def test_certificate_that_nobody_signed_is_refused(asking: Ask, stand_in: Play, tmp_path: Path) -> None:
    key, cert = tmp_path / "key", tmp_path / "cert"
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1"]
    try:
        subprocess.run([*make, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    server = stand_in()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    server._http.socket = context.wrap_socket(server._http.socket, server_side=True)
    [failed] = asking(server.url.replace("http:", "https:")).of(Failed)
    assert "certificate" in failed.message.lower()


def test_stop_keeps_what_was_written_and_hangs_up(asking: Ask, stand_in: Play) -> None:
    server, gate = stand_in(), threading.Event()
    server.play(said("Good "), wait_for(gate))
    client = asking(server.url)
    client.on_event = lambda event: client.engine.inbox.put(Stop()) if isinstance(event, Emitted) else None
    answer = client.ask()
    gate.set()
    assert (answer.text, answer.finish) == ("Good ", Finish.CANCELLED)


def test_stop_is_heard_while_the_server_reads(asking: Ask, stand_in: Play) -> None:
    server, gate = stand_in(), threading.Event()
    server.play(wait_for(gate))
    client = asking(server.url)
    client.engine.inbox.put(Stop())
    answer = client.ask()
    gate.set()
    assert (answer.text, answer.finish) == ("", Finish.CANCELLED)


def test_partial_answer_stays_in_the_conversation_with_one_sentence(stand_in: Play) -> None:
    server = stand_in()
    server.play(said("Good "), hang_up)
    client = RemoteClient(Address.of(server.url))
    chat = Conversation(client, LOAD, Options("m", "server", None, Sampling()))

    def fold() -> bool:
        for event in client.poll():
            chat.fold(event)
        return isinstance(chat.engine, Ready) and not chat.running

    chat.start()
    eventually(fold)
    chat.submit("hello")
    eventually(fold)
    client.close()
    assert chat.answers[0].answer is not None
    assert chat.answers[0].answer.text == "Good "
    assert [note.error for note in chat.notes if note.error] == [True]
    assert chat.context is None, "this server does not say how much fits"


# A real `localspec serve`


@pytest.fixture(scope="module")
def server(start: Start) -> Server:  # noqa: F811
    return start()


LOOKUP = {"method": "lookup", "draft_tokens": 4}


def test_greedy_text_and_rounds_are_the_local_ones(asking: Ask, server: Server, noise: str) -> None:
    driver = Driver(noise, threads=1)
    local = driver.ask(TEXT, max_tokens=60, **LOOKUP, logprobs=1)
    driver.close()
    answer = asking(server.url).ask(TEXT, max_tokens=60, **LOOKUP, logprobs=1)
    assert answer.text == local.text
    assert answer.token_ids == local.token_ids
    assert answer.pieces == local.pieces
    assert answer.finish is local.finish
    assert answer.prompt_tokens == local.prompt_tokens
    facts = [[(r.drafted, r.accepted, r.emitted) for r in each.rounds] for each in (answer, local)]
    assert facts[0] == facts[1]
    assert answer.names == local.names != {}
    assert [[p.token for p in r.logprobs] for r in answer.rounds] == [
        [p.token for p in r.logprobs] for r in local.rounds
    ]
    assert answer.reported is None


def test_raw_text_is_the_local_one(asking: Ask, server: Server, noise: str) -> None:
    client = asking(server.url)
    client.events.clear()
    client.engine.handle(Generate(1, prompt=TEXT, sampling=Sampling(temperature=0), method="off", max_tokens=9))
    [finished] = client.of(Finished)
    assert (finished.prompt_tokens, finished.reason) == (len(TEXT), Finish.LENGTH)


def test_live_switch_works_in_mid_answer(asking: Ask, server: Server) -> None:
    client = asking(server.url)
    plain = client.ask(TEXT, max_tokens=400, method="off")

    def switch(event: Event) -> None:
        if isinstance(event, Emitted) and not client.engine.inbox._commands and len(client.of(Emitted)) == 1:
            client.engine.inbox.put(Use("lookup", 4))

    client.on_event = switch
    switched = client.ask(TEXT, max_tokens=400, method="off")
    assert switched.token_ids == plain.token_ids
    assert [run.method for run in switched.segments] == ["off", "lookup"]
    assert switched.prompt_tokens == plain.prompt_tokens


def test_stopped_answer_can_be_continued(asking: Ask, server: Server) -> None:
    client = asking(server.url)
    whole = client.ask(TEXT, max_tokens=60, method="off")
    begun = client.ask(TEXT, max_tokens=25, method="off")
    rest = client.ask(TEXT, max_tokens=60, method="off", resume=begun.token_ids)
    assert (begun.text + rest.text)[: len(whole.text)] == whole.text


def test_what_the_server_offers_is_what_can_be_chosen(asking: Ask, server: Server) -> None:
    [ready] = asking(server.url).of(Ready)
    assert {"auto", "off", "lookup", "suffix"} <= set(ready.methods)
    assert "no draft model" in dict(ready.reasons)["draft"]
    assert ready.target.n_ctx == 2048


def test_prefill_is_seen(asking: Ask, server: Server) -> None:
    client = asking(server.url)
    client.ask("x" * 1500, max_tokens=1, method="off")
    assert client.of(Prefill)[-1].done > 1500


def test_killed_server_is_a_sentence(asking: Ask, start: Start) -> None:  # noqa: F811
    server = start()
    client = asking(server.url)

    def kill(event: Event) -> None:
        if isinstance(event, Emitted):
            server.process.kill()

    client.on_event = kill
    bias = tuple((token, -1000.0) for token in (*range(3), *range(259, 265)))
    answer = client.ask(TEXT, method="off", sampling=Sampling(logit_bias=bias))
    assert answer.text
    assert answer.error is not None and server.url in answer.error
