"""What crosses the pipe: commands in, events out. Frozen dataclasses of plain data, so that they pickle.

Order of events: Load -> Loading* (Ready | Failed); Generate -> Notice* Prefill* Emitted* (Finished | Failed).
Died comes from the client, when the process behind the pipe is gone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from localspec.chat.message import Message, Piece
from localspec.chat.reported import Reported
from localspec.model import ModelInfo, ModelSpec
from localspec.spec.advice import Advice
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, Round


@dataclass(frozen=True, slots=True)
class Load:
    target: ModelSpec
    draft: ModelSpec | None = None
    corpus: str | None = None  # folder of this user's earlier answers, for the suffix drafter; None: not kept
    corpus_tokens: int = 0  # how many tokens of them to keep
    numerics: str = "fast"  # strict: only draft lengths that leave every logit as in plain decoding
    rpc: tuple[str, ...] = ()  # workers, HOST:PORT, that take layers of the target


@dataclass(frozen=True, slots=True)
class Generate:
    """One answer. `messages` go through the chat template; `prompt` (for --raw) does not. One of the two is set.

    `resume` token ids of a stopped answer are appended to the prompt, and generation goes on after them.
    """

    turn: int  # chosen by the caller; the events of this answer carry it
    messages: tuple[Message, ...] = ()
    prompt: str | None = None
    sampling: Sampling = field(default_factory=Sampling)
    method: str = "auto"
    draft_tokens: int | None = None  # None: chosen each round from measured costs
    verifier: str = "block"  # or token; or a lossy rule (spec/lossy.py)
    lookup: tuple[int, int] = (2, 32)  # shortest and longest match that lookup looks for
    max_tokens: int | None = None  # None: until the model stops or the context is full
    stop: tuple[str, ...] = ()
    resume: tuple[int, ...] = ()
    grammar: str | None = None  # GBNF that the answer must follow
    logprobs: int | None = None  # log-probabilities of every emitted token, with so many alternatives
    remember: bool = True  # what suffix learns from; False in a race, where the second run would know the first


@dataclass(frozen=True, slots=True)
class Stop:
    """End the running answer after the current round or prompt chunk; keep what was written."""


@dataclass(frozen=True, slots=True)
class Use:
    """Switch method and draft length (None: automatic) from the next round on; also in the middle of an answer."""

    method: str
    draft_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Unload:
    pass


@dataclass(frozen=True, slots=True)
class Quit:
    pass


Command: TypeAlias = Load | Generate | Stop | Use | Unload | Quit


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything that a figure depends on besides the settings. Fields of `environment` in the JSON contract."""

    localspec: str
    llama_cpp_python: str
    llama_cpp: str
    backend: str
    devices: tuple[str, ...]
    cpu: str
    threads: int
    os: str
    peak_memory_bytes: int
    models: tuple[ModelInfo, ...]
    numerics: str = "fast"


@dataclass(frozen=True, slots=True)
class Loading:
    fraction: float  # 0..1
    role: str = "target"


@dataclass(frozen=True, slots=True)
class Ready:
    target: ModelInfo
    draft: ModelInfo | None
    methods: tuple[str, ...]  # those that work with what is loaded
    reasons: tuple[tuple[str, str], ...]  # the others, and why they don't
    environment: Environment
    thinks: bool = False  # answers begin inside of a thinking block, since the template opens it
    no_logprobs: str = ""  # why log-probabilities can't be asked for, where they can't


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know once: a fallback, a clamp, a re-read."""

    text: str
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Prefill:
    """Reading the prompt: `done` of `total` tokens, `reused` of which were still in the cache."""

    turn: int
    done: int
    total: int
    reused: int


@dataclass(frozen=True, slots=True)
class Emitted:
    """New rounds, and the text they gave: one Piece per emitted token, in order."""

    turn: int
    rounds: tuple[Round, ...]
    pieces: tuple[Piece, ...]
    why: str = ""  # the last choice of an automatic method, and its reason
    names: tuple[tuple[int, str], ...] = ()  # texts of tokens in `logprobs`, each told once an answer


@dataclass(frozen=True, slots=True)
class Finished:
    """The answer ended. Times in seconds; `ttft_s` is None when no token came."""

    turn: int
    reason: Finish
    seed: int
    prompt_tokens: int
    reused_tokens: int
    prefill_s: float
    ttft_s: float | None
    decode_s: float
    total_s: float
    environment: Environment
    tail: str = ""  # text that was held back (half a character, the start of a stop string) when a stop came
    advice: tuple[Advice, ...] = ()  # about each drafter that was measured since the model was loaded
    reported: Reported | None = None  # of a server, whose rounds are not seen


@dataclass(frozen=True, slots=True)
class Failed:
    """A command failed; the engine lives on. `turn` is None for a failed Load."""

    message: str
    hint: str
    exit_code: int = 1
    turn: int | None = None
    lines: tuple[str, ...] = ()
    too_long: int = 0  # tokens of a prompt that the context has no room for


@dataclass(frozen=True, slots=True)
class Died:
    """The engine process is gone. `how` is for people ("killed by signal 9 (SIGKILL)")."""

    how: str
    lines: tuple[str, ...] = ()


Event: TypeAlias = Loading | Ready | Notice | Prefill | Emitted | Finished | Failed | Died
