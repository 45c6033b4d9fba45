"""`localspec run`: one answer to standard output, as text or as the JSON contract.

The engine is a process of its own. Standard output is data, standard error is narration.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from localspec.chat.answer import Answer
from localspec.chat.figures import footer, speculation, timings
from localspec.chat.text import visible
from localspec.chat.trace import Trace, check, header, save, taken
from localspec.config import log_file
from localspec.engine.apart import Apart
from localspec.engine.environment import described
from localspec.engine.messages import (
    Emitted,
    Environment,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Notice,
    Stop,
)
from localspec.engine.remote import RemoteEngine
from localspec.errors import LocalspecError
from localspec.spec.types import Finish

SCHEMA = "localspec.run/1"
STOPPED_BY_USER = 130


class EngineFailed(LocalspecError):
    """A Failed event as an exception: message, hint and exit code are the engine's."""

    def __init__(self, event: Failed) -> None:
        super().__init__(event.message, event.hint)
        self.exit_code = event.exit_code


@dataclass(slots=True)
class _Listener:
    """Collects the answer; streams its text unless the whole is wanted as JSON."""

    answer: Answer
    stream: TextIO | None
    environment: Environment | None = None

    def __call__(self, event: Event) -> None:
        match event:
            case Emitted():
                self._write(self.answer.extend(event.rounds, event.pieces, event.names))
            case Finished():
                self.answer.end(event)
                self._write(event.tail)
                self.environment = event.environment
            case Notice():
                print(f"localspec: {visible(event.text)}", file=sys.stderr)
            case Failed():
                raise EngineFailed(event)

    def _write(self, text: str) -> None:
        if self.stream is not None and text:
            # A file gets what the model wrote; a terminal would obey some of it.
            self.stream.write(visible(text) if self.stream.isatty() else text)
            self.stream.flush()


def run(
    load: Load,
    command: Generate,
    *,
    as_json: bool,
    title: str = "",
    trace: Path | None = None,
    engine: Callable[[Callable[[Event], None]], RemoteEngine] | None = None,
) -> int:
    """Load, answer, print; returns the exit code. `title` names the model in the `trace` that is written, `engine`
    makes one that works elsewhere."""
    if trace is not None:
        check(trace)
    listener = _Listener(Answer(command.method), None if as_json else sys.stdout)
    working = engine(listener) if engine else Apart(listener, log_file())
    previous = signal.signal(signal.SIGINT, lambda *_: _interrupt(working))
    try:
        working.handle(load)
        working.handle(command)
    finally:
        signal.signal(signal.SIGINT, previous)
        working.close()
    answer, environment = listener.answer, listener.environment
    assert environment is not None
    if as_json:
        json.dump(document(answer, command, environment), sys.stdout, ensure_ascii=False, indent=2)
    print()
    if not as_json and sys.stderr.isatty():
        print(f"[{footer(answer)}]", file=sys.stderr)
    if trace is not None:
        save(_traced(answer, command, environment, title), trace)
    return STOPPED_BY_USER if answer.finish is Finish.CANCELLED else 0


def _interrupt(engine: Apart | RemoteEngine) -> None:
    """The first Ctrl+C ends the answer and keeps it; the second ends the program."""
    engine.inbox.put(Stop())
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _traced(answer: Answer, command: Generate, environment: Environment, title: str) -> Trace:
    about = header(
        answer,
        title=title,
        draft_tokens=command.draft_tokens,
        verifier=command.verifier,
        sampling=command.sampling,
        environment=environment,
        prompt=command.prompt or command.messages[-1].text,
    )
    return taken(answer, about)


def document(answer: Answer, command: Generate, environment: Environment) -> dict[str, Any]:
    """The JSON contract of `run --json` (docs/json.md). Names are stable."""
    assert answer.finish is not None
    return {
        "schema": SCHEMA,
        "text": answer.text,
        "token_ids": list(answer.token_ids),
        "finish_reason": answer.finish.value,
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": len(answer.token_ids),
        **({"logprobs": _logprobs(answer)} if command.logprobs is not None else {}),
        "timings": timings(answer),
        "speculation": speculation(answer, command.method, command.verifier),
        "sampling": asdict(command.sampling)
        | {"seed": answer.seed, "max_tokens": command.max_tokens, "stop": command.stop}
        | {"grammar": command.grammar},
        "environment": described(environment),
    }


def _logprobs(answer: Answer) -> list[dict[str, Any]]:
    """One per token: the natural logarithm of the model's own softmax, before any sampling setting."""
    return [
        {"id": each.token, "logprob": each.logprob, "top": [{"id": i, "logprob": p} for i, p in each.top]}
        for done in answer.rounds
        for each in done.logprobs
    ]
