"""Other servers: what they are asked, what is read from their answers, and what becomes of those that fail."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import localspec
from localspec import config
from localspec.bench import programs
from localspec.bench.peers import Heard, Peer, Site, body, bursts, reply, visit
from localspec.bench.runner import Gone, Plan, measure
from localspec.bench.subject import Limits
from localspec.chat.message import Message
from localspec.errors import LocalspecError, UsageError
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from tests.bench.scripted import Clock, Eye, Slow, opening, prompts
from tests.bench.stand_in import StandIn, serving
from tests.conftest import Models

LIMITS = Limits(Sampling(top_k=20, seed=None), 32, stop=("END",), system="Be brief.")
ASKED = (Message("user", "Hello"),)


def peer(site: StandIn, **fields: object) -> Peer:
    limits = dataclasses.replace(LIMITS, **fields)  # type: ignore[arg-type]
    return Peer("peer", visit(site.url), limits, 0.8)


def test_it_is_asked_with_the_same_settings() -> None:
    with serving(StandIn()) as site:
        answer = peer(site).ask(ASKED, seed=5)
    (asked,) = site.asked
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    assert (asked["temperature"], asked["top_k"], asked["seed"], asked["max_tokens"]) == (0.8, 20, 5, 32)
    assert (asked["stop"], asked["model"], asked["stream"]) == (["END"], "m", True)
    assert (answer.text, answer.finish, answer.tokens, answer.prompt_tokens) == ("Hello you", "stop", 3, 7)
    assert answer.accepted is None and answer.rounds is None
    assert answer.decode_s > 0 and answer.ttft_s is not None and answer.ttft_s <= answer.total_s


def test_each_kind_hears_its_own_words() -> None:
    limits = Limits(Sampling(repeat_penalty=1.2), 8, full_length=True)
    llama, vllm, other = (body(kind, "m", limits, 0.0, ASKED, 1) for kind in ("llama-server", "vllm", "openai"))
    assert llama["cache_prompt"] is False and llama["ignore_eos"] is True and llama["repeat_penalty"] == 1.2
    assert vllm["ignore_eos"] is True and vllm["repetition_penalty"] == 1.2 and "cache_prompt" not in vllm
    assert "ignore_eos" not in other
    assert "repeat_penalty" not in body("openai", "m", LIMITS, 0.0, ASKED, 1)


def test_llama_server_has_a_clock_and_counts_its_drafts() -> None:
    timings = {
        **{"cache_n": 2, "prompt_n": 5, "prompt_ms": 50.0, "predicted_n": 11, "predicted_ms": 100.0},
        **{"draft_n": 8, "draft_n_accepted": 6},
    }
    with serving(StandIn("llama-server", timings=timings)) as site:
        assert visit(site.url).kind == "llama-server" and visit(site.url).build == "b1"
        found = peer(site).ask(ASKED, seed=1)
    assert (found.tokens, found.drafted, found.accepted, found.tested) == (11, 8, 6, None)
    assert found.rounds == 5  # 11 tokens, 6 of them accepted ones
    assert found.prefill_s == 0.05 and found.reused_tokens == 2
    # 100 ms are the ten tokens after the first.
    assert found.decode_s == pytest.approx(0.11)


def test_vllm_counts_on_another_page() -> None:
    page = """# HELP vllm:spec_decode_num_drafts_total drafts
vllm:spec_decode_num_drafts_total{{engine="0"}} {0}.0
vllm:spec_decode_num_draft_tokens_total{{engine="0"}} {1}.0
vllm:spec_decode_num_accepted_tokens_total{{engine="0"}} {2}
vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",position="0"}} 9.0
vllm:spec_decode_num_accepted_tokens_total{{engine="1"}} 1.0
"""
    pages = [page.format(10, 30, 20), page.format(10, 30, 20), page.format(12, 36, 21)]
    with serving(StandIn("vllm", metrics=pages)) as site:
        found = peer(site).ask(ASKED, seed=1)
    assert (found.drafted, found.accepted, found.rounds) == (6, 1, 2)


@pytest.mark.parametrize(
    ("model", "told"), [("/home/me/models/m.gguf", "m.gguf"), ("Qwen/Qwen3-4B", "Qwen/Qwen3-4B")]
)
def test_a_report_leaves_out_the_folders_of_a_model(model: str, told: str) -> None:
    assert Site("http://h", model, "llama-server").told["model"] == told


def test_pieces_of_one_pass_share_its_time() -> None:
    # The first is the TTFT's; three come together after 50 ms, one after another 30 ms.
    assert list(bursts([1.0, 1.05, 1.0502, 1.0504, 1.0804])) == [(3, 0.05), (1, 0.03)]
    assert list(bursts([1.0, 1.0001, 1.05])) == [(1, pytest.approx(0.0499))]
    assert list(bursts([1.0])) == list(bursts([])) == []


def test_without_a_clock_of_its_own_the_pieces_tell() -> None:
    heard = Heard(["a", "b", "c"], [1.0, 1.2, 1.4], "stop", ended=1.5)
    found = reply(heard, {})
    assert found.tokens == 3 and found.decode_s == pytest.approx(0.4 * 3 / 2)
    assert reply(Heard(["a"], [1.0], "stop", ended=1.5), {}).decode_s == 1.5


def test_a_server_with_several_models_wants_a_name() -> None:
    with serving(StandIn(models=("a", "b"))) as site:
        with pytest.raises(UsageError, match="serves 2 models: a, b") as caught:
            visit(site.url)
        assert "#MODEL" in caught.value.hint
        assert visit(site.url + "/v1", "b").model == "b"


def test_nobody_there_is_a_sentence() -> None:
    with pytest.raises(Gone, match="can't be read"):
        visit("http://127.0.0.1:9")
    with pytest.raises(Gone, match="can't be read"):
        visit("nonsense")


def test_an_error_is_told_in_the_servers_words() -> None:
    with serving(StandIn(status=503)) as site, pytest.raises(LocalspecError, match="HTTP 503: the slot is busy"):
        peer(site).ask(ASKED, seed=1)
    with serving(StandIn(error=True)) as site, pytest.raises(LocalspecError, match="out of memory"):
        peer(site).ask(ASKED, seed=1)


def test_a_server_that_dies_is_gone() -> None:
    with serving(StandIn(cut=True)) as site, pytest.raises(Gone, match="broke off after 2 pieces"):
        peer(site).ask(ASKED, seed=1)
    with serving(StandIn()) as site:
        left = peer(site)
    with pytest.raises(Gone, match="no longer answers"):
        left.ask(ASKED, seed=1)


def test_what_a_dead_server_did_is_kept_and_the_others_go_on() -> None:
    with serving(StandIn()) as site:
        there = peer(site)

        class Dying:
            label, asked = "peer", 0

            def ask(self, messages: object, seed: int) -> object:
                self.asked += 1
                site.cut = self.asked == 3
                return there.ask(ASKED, seed)

        outcome = measure([opening(Slow("off", Clock()), Dying())], Plan(prompts(5), warmup=0), Eye())  # type: ignore[arg-type]
    assert [s.task.prompt for s in outcome.samples if s.variant == "peer"] == ["p0", "p1"]
    assert sum(s.variant == "off" for s in outcome.samples) == 5
    assert "broke off" in outcome.problems["peer"]


@pytest.mark.parametrize("text", ["llama-server", "llama-server=", "vllm=/bin/true", "llama-server='x"])
def test_a_peer_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--peer"):
        programs.read(text)


def test_a_program_that_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="is no program") as caught:
        programs.read("llama-server=/no/such/llama-server")
    assert "build_peer.py" in caught.value.hint


def test_words_behind_the_path_are_its_arguments() -> None:
    found = programs.read(f"llama-server={sys.executable} --spec-type ngram-mod")
    assert found.arguments == ("--spec-type", "ngram-mod") and found.label == "llama-server ngram-mod"


def test_it_gets_the_settings_that_were_loaded(models: Models) -> None:
    with_model = LlamaModel.load(ModelSpec(models("noise_q8"), n_ctx=256, threads=1))
    try:
        found = programs.command(programs.Program("server", ("--spec-type", "x")), with_model.info, 1234)
    finally:
        with_model.close()
    pairs = dict(zip(found[1::2], found[2::2], strict=True))
    assert (pairs["-c"], pairs["-t"], pairs["-fa"], pairs["-ctk"], pairs["-ctv"]) == (
        "256",
        "1",
        "on",
        "q8_0",
        "q8_0",
    )
    assert (pairs["--port"], pairs["-m"], pairs["--spec-type"]) == ("1234", with_model.info.path, "x")


def test_a_server_that_does_not_start_says_why(models: Models) -> None:
    model = LlamaModel.load(ModelSpec(models("noise_q8"), n_ctx=256, threads=1))
    model.close()
    program = programs.Program(sys.executable, ())
    with (
        pytest.raises(LocalspecError, match=r"llama-server ended with code 1\..*No module named"),
        programs.running(program, model.info),
    ):
        pass


def test_a_benchmark_that_is_ended_from_outside_takes_its_servers_with_it(
    models: Models, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = LlamaModel.load(ModelSpec(models("noise_q8"), n_ctx=256, threads=1))
    model.close()
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(programs, "command", lambda *_: [sys.executable, "-c", "import time; time.sleep(600)"])
    monkeypatch.setattr(programs, "_started", lambda process, url, log: started.append(process))
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit), programs.running(programs.Program("server"), model.info):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)  # the signal comes at once, and ends this
    assert started[0].returncode is not None
    assert signal.getsignal(signal.SIGTERM) == before


def built() -> str:
    """The llama-server that scripts/build_peer.py has built, or one on the path."""
    kept = Path.home() / ".cache"  # the tests' own cache folder is empty
    found = next(kept.glob("localspec/peer/*/llama-server"), None) or shutil.which("llama-server")
    return str(found) if found else pytest.skip("no llama-server is built: python scripts/build_peer.py")


def test_a_real_llama_server_says_what_we_say(demo_model: str) -> None:
    program = programs.read(f"llama-server={built()}")
    with localspec.Model(demo_model, n_ctx=512, threads=1) as model:
        ours = model.ask("Hello", method="off", sampling=Sampling(temperature=0), max_tokens=16)
        with programs.running(program, model.info) as site:
            assert site.kind == "llama-server" and site.build
            found = Peer("server", site, Limits(Sampling(), 16), 0.0).ask(ASKED, seed=1)
    assert (found.text, found.prompt_tokens) == (ours.text, ours.prompt_tokens)
    assert found.prefill_s and found.rounds == found.tokens and found.drafted is None


@contextmanager
def binding_server(model: str) -> Iterator[str]:
    """The OpenAI-compatible server that the binding brings, on loopback; its URL."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    words = ("--model", model, "--n_ctx", "512", "--n_threads", "1", "--port", str(port))
    process = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_the_bindings_own_server_stands_beside(models: Models) -> None:
    pytest.importorskip("fastapi")
    with binding_server(models("noise_q8")) as url:
        site = patiently(lambda: visit(url))
        assert site.kind == "openai"
        found = Peer("server", site, Limits(Sampling(), 16), 0.0).ask(ASKED, seed=1)
        assert found.text and 1 <= found.tokens <= 16 and found.finish in ("stop", "length")
        assert found.total_s >= found.decode_s > 0
    with pytest.raises(Gone):
        Peer("server", site, Limits(Sampling(), 16), 0.0).ask(ASKED, seed=1)


def patiently(action: Callable[[], Site]) -> Site:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            return action()
        except Gone:
            time.sleep(0.1)
    return action()


def test_the_servers_cache_folder_is_where_the_builder_puts_it() -> None:
    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    from build_peer import place  # type: ignore[import-not-found]

    assert place("0.3.36") == config.cache_dir() / "peer" / "0.3.36" / "llama-server"
