"""An engine that plays what it is told: no model, no process, no clock. Also used by scripts/screenshot.py."""

from __future__ import annotations

import random
import re
from collections import deque
from collections.abc import Iterator, Sequence

from localspec.chat.message import Piece
from localspec.engine.messages import (
    Command,
    Emitted,
    Environment,
    Event,
    Finished,
    Generate,
    Load,
    Loading,
    Prefill,
    Ready,
    Stop,
    Use,
)
from localspec.model import ModelInfo
from localspec.spec.types import Finish, Round

N_CTX = 8192

MODEL = ModelInfo(
    role="target",
    path="/models/SmolLM2-135M-Instruct.Q4_1.gguf",
    name="SmolLM2 135M",
    description="llama 134.52M Q4_1",
    architecture="llama",
    bytes=98_000_000,
    fingerprint="0" * 64,
    n_ctx=N_CTX,
    n_ctx_train=8192,
    n_vocab=49152,
    n_layer=30,
    gpu_layers=0,
    threads=4,
    flash_attn=True,
    cache_type_k="q8_0",
    cache_type_v="q8_0",
    rollback="PART",
)
ENVIRONMENT = Environment(
    localspec="0.1.0",
    llama_cpp_python="0.3.36",
    llama_cpp="1",
    backend="CPU",
    devices=(),
    cpu="a processor",
    threads=4,
    os="an operating system",
    peak_memory_bytes=123,
    models=(MODEL,),
)
READY = Ready(MODEL, None, ("off", "lookup"), (), ENVIRONMENT)


class ScriptedClient:
    """`play` puts events in the pipe; each `poll` takes one batch. Answers a Load with Ready unless told otherwise,
    a Generate with the next of `replies` if there is one, and a Stop as the engine does."""

    def __init__(self, *replies: str, ready: bool = True) -> None:
        self.replies = deque(replies)
        self.ready = ready
        self.starts = 0
        self.closed = False
        self.commands: list[Command] = []
        self._batches: deque[list[Event]] = deque()

    def play(self, *events: Event) -> None:
        """These events arrive together."""
        self._batches.append(list(events))

    @property
    def idle(self) -> bool:
        return not self._batches

    @property
    def asked(self) -> list[Generate]:
        return [command for command in self.commands if isinstance(command, Generate)]

    @property
    def used(self) -> list[Use]:
        return [command for command in self.commands if isinstance(command, Use)]

    @property
    def turn(self) -> int:
        return self.asked[-1].turn

    def start(self) -> None:
        self.starts += 1
        self._batches.clear()

    def send(self, command: Command) -> None:
        self.commands.append(command)
        match command:
            case Load() if self.ready:
                self.play(Loading(0.5), READY)
            case Generate() if self.replies:
                for event in reply(command, self.replies.popleft()):
                    self.play(event)
            case Stop() if self.asked:
                self._batches.clear()
                self.play(finished(self.turn, Finish.CANCELLED))

    def poll(self) -> list[Event]:
        return self._batches.popleft() if self._batches else []

    def close(self) -> None:
        self.closed = True


def reply(command: Generate, text: str, *, rounds_per_event: int = 4) -> Iterator[Event]:
    """A whole answer as the engine would send it."""
    yield Prefill(command.turn, 24, 24, 0)
    spoken = rounds(text, method=command.method, limit=command.draft_tokens)
    for start in range(0, len(spoken), rounds_per_event):
        yield emitted(command.turn, spoken[start : start + rounds_per_event])
    yield finished(command.turn, Finish.STOP, decode_s=sum(r.total_s for r, _ in spoken))


def emitted(turn: int, spoken: Sequence[tuple[Round, tuple[Piece, ...]]]) -> Emitted:
    return Emitted(turn, tuple(r for r, _ in spoken), tuple(piece for _, pieces in spoken for piece in pieces))


def text(turn: int, words: str) -> Emitted:
    """Some words in one event, decoded plainly."""
    return emitted(turn, rounds(words, method="off"))


def finished(turn: int, reason: Finish = Finish.STOP, *, decode_s: float = 2.0, tail: str = "") -> Finished:
    return Finished(
        turn=turn,
        reason=reason,
        seed=1234567,
        prompt_tokens=24,
        reused_tokens=0,
        prefill_s=0.1,
        ttft_s=0.13,
        decode_s=decode_s,
        total_s=decode_s + 0.1,
        environment=ENVIRONMENT,
        tail=tail,
    )


def rounds(
    words: str, *, method: str = "lookup", limit: int = 8, seed: int = 1
) -> list[tuple[Round, tuple[Piece, ...]]]:
    """Cut a text into rounds with some luck in drafting; the same each time."""
    luck = random.Random(seed)
    tokens = re.findall(r"\s*\S{1,6}|\s+", words)
    spoken = []
    while tokens:
        drafted = 0 if method == "off" or luck.random() < 0.3 else min(limit, luck.randint(1, 8))
        accepted = min(sum(1 for _ in range(drafted) if luck.random() < 0.7), len(tokens) - 1)
        own, tokens = tokens[: accepted + 1], tokens[accepted + 1 :]
        spoken.append(one_round(own, method, drafted, accepted, limit, luck.uniform(0.9, 1.2)))
    return spoken


def one_round(
    own: list[str], method: str, drafted: int, accepted: int, limit: int, slow: float
) -> tuple[Round, tuple[Piece, ...]]:
    verify, draft = 0.014 * slow + 0.0008 * drafted, 0.0002 if drafted else 0.0
    made = Round(
        method=method,
        source=method if drafted else "off",
        drafted=tuple(range(drafted)),
        accepted=accepted,
        emitted=tuple(range(len(own))),
        p=(0.8,) * accepted,
        q=(1.0,) * accepted,
        limit=limit,
        draft_s=draft,
        verify_s=verify,
        sample_s=0.0006,
        total_s=draft + verify + 0.001,
    )
    return made, tuple(Piece(n, word, who) for n, (word, who) in enumerate(zip(own, made.provenance, strict=True)))
