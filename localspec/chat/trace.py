"""One answer as a file of JSON lines: what it was asked with, each round with its time and text, and how it ended.

Everything that the views of an answer show can be shown again from it, with no model (engine/replay.py). The format
is described in docs/traces.md. Knows no engine and no clock.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from itertools import accumulate, count
from pathlib import Path
from typing import Any
from uuid import uuid4

from localspec.chat.answer import Answer
from localspec.chat.message import Piece
from localspec.errors import LocalspecError
from localspec.spec.types import Round

SCHEMA = "localspec.trace/1"


@dataclass(frozen=True, slots=True)
class Header:
    """What stands in the first line. `environment` is the engine's own, as plain data."""

    title: str  # of the model, for people
    method: str
    draft_tokens: int | None
    verifier: str
    sampling: dict[str, Any]
    prompt: str | None = None  # the last message of the user's, where it may be told
    thinks: bool = False  # the answer began inside of a thinking block
    environment: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """`seconds[i]` is when round i was over, from the asking on."""

    header: Header
    answer: Answer
    seconds: tuple[float, ...]


def header(
    answer: Answer,
    *,
    title: str,
    draft_tokens: int | None,
    verifier: str,
    sampling: Any,
    environment: Any,
    prompt: str | None = None,
    thinks: bool = False,
) -> Header:
    """`sampling` and `environment` are the dataclasses that the answer was made with. Of the models' files only the
    names are told: a trace is made to be shown to others."""
    settings = asdict(sampling) | ({"seed": answer.seed} if answer.seed is not None else {})
    facts = asdict(environment) if environment is not None else None
    for model in facts["models"] if facts else ():
        model["path"] = Path(model["path"]).name
    return Header(title, answer.method, draft_tokens, verifier, settings, prompt, thinks, facts)


def taken(answer: Answer, header: Header) -> Trace:
    """The trace of an answer that is over."""
    ends = accumulate((made.total_s for made in answer.rounds), initial=answer.prefill_s or 0.0)
    return Trace(header, answer, tuple(ends)[1:])


def lines(trace: Trace) -> Iterator[str]:
    yield _line({"schema": SCHEMA, **asdict(trace.header)})
    answer, at, told = trace.answer, 0, set[int]()
    for made, seconds in zip(answer.rounds, trace.seconds, strict=True):
        pieces = answer.pieces[at : (at := at + len(made.emitted))]
        fresh = made.considered - told
        named = [[token, answer.names[token]] for token in sorted(fresh) if token in answer.names]
        told |= fresh
        yield _line(_round(made, seconds, pieces) | ({"names": named} if named else {}))
    ending = ("finish", "seed", "prompt_tokens", "reused_tokens", "prefill_s", "ttft_s", "decode_s", "total_s")
    yield _line({"end": True} | {name: getattr(answer, name) for name in (*ending, "tail", "error")})


def save(trace: Trace, path: Path) -> None:
    """Write it in one step, in the place of a file that may be there."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("x", encoding="utf-8", newline="") as file:
            file.writelines(f"{line}\n" for line in lines(trace))
        part.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def check(path: Path) -> None:
    """Raises what `save` would raise: to be asked before a long answer."""
    if path.is_dir():
        raise unwritable(path, IsADirectoryError("it is a folder"))
    if not os.access(path.absolute().parent, os.W_OK):
        raise unwritable(path, OSError("its folder is not there, or not yours to write to"))


def unwritable(path: Path, error: OSError) -> LocalspecError:
    return LocalspecError(
        f"Cannot write the trace {path}: {error.strerror or error}.", "Name a file in a folder of your own."
    )


def free(folder: Path, stem: str, ending: str = ".trace.jsonl") -> Path:
    """A name that no file in the folder has."""
    names = (f"{stem}{ending}" if n == 1 else f"{stem}-{n}{ending}" for n in count(1))
    return next(path for name in names if not (path := folder / name).exists())


def _round(made: Round, seconds: float, pieces: Sequence[Piece]) -> dict[str, Any]:
    about = {field.name: getattr(made, field.name) for field in fields(made) if field.name != "logprobs"}
    about |= {"pieces": [asdict(piece) for piece in pieces]}
    if made.logprobs:
        about["logprobs"] = [[each.token, each.logprob, each.top] for each in made.logprobs]
    return {"t": round(seconds, 6)} | about


def _line(plain: dict[str, Any]) -> str:
    """In ASCII: some readers end a line at more characters than a line feed, and half a surrogate is no UTF-8."""
    return json.dumps(plain, separators=(",", ":"))
