"""What the program itself costs beside the model: the loop against bare passes of llama.cpp, the screen against a plain
answer, memory over many turns, and the start. Parts of `make bench`, each gives its figure."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
from textual.pilot import Pilot

from localspec import Model
from localspec.bench.subject import Limits, Subject
from localspec.bench.suite import Prompt
from localspec.bench.variants import Variant
from localspec.chat.figures import tokens_per_second
from localspec.chat.message import Message
from localspec.conversation import Options
from localspec.engine.messages import Died, Failed, Load
from localspec.engine.process import ProcessClient
from localspec.llama.native import lc
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp

GREEDY = Sampling(temperature=0.0)
QUESTION = "Explain what a hash table is, with a short example in Python."


def against_bare_passes(model: Path, prompts: tuple[Prompt, ...], tokens: int, repeats: int) -> float:
    """The speed of `off` over that of one llama_decode after the other on the same tokens, in turns on one load."""
    subject = Subject(Load(ModelSpec(str(model), n_ctx=2048)), lambda text: None)
    limits, ours, bare = Limits(GREEDY, tokens, full_length=True), list[float](), list[float]()
    try:
        for repeat in range(repeats + 1):  # the first one warms up
            for prompt in prompts:
                messages = (Message("user", prompt.turns[0]),)
                reply = subject.ask(Variant(), limits, messages, seed=1)
                said = subject.said(Variant())
                seconds = bare_passes(subject, *said)
                if repeat:
                    ours.append(reply.decode_s)
                    bare.append(seconds)
    finally:
        subject.close()
    return sum(bare) / sum(ours)


def bare_passes(subject: Subject, prompt: list[int], answer: tuple[int, ...]) -> float:
    """Seconds for the passes that give `answer`: nothing but llama_decode, and waiting for its logits."""
    target = subject.loaded.target
    target.rewind(0)
    for start in range(0, len(prompt) - 1, target.n_batch):
        target.decode(prompt[start : min(start + target.n_batch, len(prompt) - 1)], rows=0)
    read = np.array([prompt[-1], *answer[:-1]], np.int64)
    began = perf_counter()
    for i in range(len(read)):
        code = lc.llama_decode(target._context, target._batch.fill(read[i : i + 1], len(prompt) - 1 + i, 1))
        assert code == 0, f"llama_decode gave {code}"
        lc.llama_get_logits(target._context)
    return perf_counter() - began


def on_the_screen(model: Path, tokens: int, repeats: int) -> float:
    """Decode speed of an answer in the chat over that of the same one in-process, in turns; the screen has no terminal
    to write to."""
    return asyncio.run(_on_the_screen(model, tokens, repeats))


async def _on_the_screen(model: Path, tokens: int, repeats: int) -> float:
    options = Options("bench", "off", None, GREEDY, max_tokens=tokens)
    shown, plain = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder, Model(str(model), n_ctx=2048) as here:
        client = ProcessClient(Path(folder, "engine.log"))
        app = ChatApp(client, Load(ModelSpec(str(model), n_ctx=2048)), options)
        async with app.run_test(size=(100, 30)) as pilot:
            await _until(pilot, app, lambda: bool(app.conversation.methods))
            for repeat in range(repeats + 1):  # the first one warms up
                said = here.ask(QUESTION, method="off", sampling=GREEDY, max_tokens=tokens)
                plain.append(tokens_per_second(said) or 0.0)
                if repeat == 0:
                    app.conversation.submit(QUESTION)
                else:
                    app.conversation.regenerate()
                await _until(pilot, app, lambda: not app.conversation.running)
                answer = app.conversation.shown
                assert answer is not None
                shown.append(tokens_per_second(answer) or 0.0)
        client.close()
    return median(shown[1:]) / median(plain[1:])


async def _until(pilot: Pilot[None], app: ChatApp, holds: Callable[[], bool]) -> None:
    while not holds():
        if isinstance(app.conversation.engine, Failed | Died):
            raise SystemExit(f"the engine of the chat: {app.conversation.engine}")
        await pilot.pause(0.05)


def growth(model: Path, turns: int = 100) -> float | None:
    """MiB that the process grew by between turn 20 and the last one; None where the system doesn't say."""
    if not Path("/proc/self/statm").exists():
        return None
    sizes = []
    with Model(str(model), n_ctx=2048) as here:
        for turn in range(turns):
            here.ask(f"Say the number {turn}.", sampling=Sampling(temperature=0.8, seed=turn), max_tokens=12)
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]))
    return (max(sizes[-10:]) - max(sizes[: turns // 5])) * 4096 / 2**20


def start() -> float:
    """The time of `localspec --help` over that of importing typer; the fastest of several each, in turns."""
    program = "import sys; sys.argv = ['localspec', '--help']; from localspec.cli import main; main()"
    helping = (sys.executable, "-c", program)
    typing = (sys.executable, "-c", "import typer")
    fastest = [float("inf")] * 2
    for _ in range(9):
        for i, words in enumerate((helping, typing)):
            began = perf_counter()
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
            fastest[i] = min(fastest[i], perf_counter() - began)
    return fastest[0] / fastest[1]
