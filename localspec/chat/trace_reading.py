"""A trace is read line by line and believed in nothing: what is wrong with it is said with its line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from localspec.chat.answer import Answer
from localspec.chat.message import Piece
from localspec.chat.trace import SCHEMA, Header, Trace
from localspec.errors import LocalspecError
from localspec.spec.types import Finish, LogProb, Round

T = TypeVar("T")
_KIND = {int: "a whole number, 0 or more", float: "a number, 0 or more", str: "a text", bool: "true or false"}


class TraceError(LocalspecError):
    def __init__(self, path: Path, line: int, what: str) -> None:
        super().__init__(f"{path}, line {line}: {what}", "docs/traces.md describes the format.")


class _Wrong(Exception):
    """What is wrong with the line at hand."""


def read(path: Path) -> Trace:
    """Raises LocalspecError for a file that can't be read, TraceError for a line that is not as it should be."""
    try:
        rows = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise LocalspecError(f"Cannot read {path}: {error.strerror or error}.", "Is the name right?") from error
    except UnicodeDecodeError as error:
        raise LocalspecError(f"{path} is no trace: it is not text.", "localspec run --trace writes one.") from error
    while rows and not rows[-1].strip():
        rows.pop()
    return _Reader(path).trace(rows)


class _Reader:
    def __init__(self, path: Path) -> None:
        self._path = path

    def trace(self, rows: list[str]) -> Trace:
        header = self._at(1, rows[0] if rows else "", _header)
        answer, seconds = Answer(header.method), [0.0]
        last = len(rows)
        for number, row in enumerate(rows[1:-1], 2):
            made, pieces, names, at = self._at(number, row, _round)
            if at < seconds[-1]:
                raise TraceError(self._path, number, f'"t" is {at:g}, and was {seconds[-1]:g} a line before.')
            answer.extend((made,), pieces, names)
            seconds.append(at)
        if last < 2 or not self._at(last, rows[-1], lambda plain: plain.get("end") is True):
            raise TraceError(
                self._path, max(last, 1), "it breaks off here: the last line of a trace says how it ended."
            )
        self._at(last, rows[-1], lambda plain: _end(plain, answer))
        return Trace(header, answer, tuple(seconds[1:]))

    def _at(self, number: int, row: str, parse: Callable[[dict[str, Any]], T]) -> T:
        try:
            plain = json.loads(row)
            if not isinstance(plain, dict):
                _wrong("it is no JSON object.")
            return parse(plain)
        except _Wrong as wrong:
            raise TraceError(self._path, number, str(wrong)) from None
        except (ValueError, RecursionError):
            raise TraceError(self._path, number, "it is no JSON object.") from None


def _header(plain: dict[str, Any]) -> Header:
    if plain.get("schema") != SCHEMA:
        _wrong(f'"schema" is not "{SCHEMA}": this is no trace, or one of another version.')
    environment = plain.get("environment")
    return Header(
        title=_get(plain, "title", str),
        method=_get(plain, "method", str),
        draft_tokens=_optional(plain, "draft_tokens", int),
        verifier=_get(plain, "verifier", str),
        sampling=_object(plain.get("sampling", {}), "sampling"),
        prompt=_optional(plain, "prompt", str),
        thinks=_get({"thinks": False} | plain, "thinks", bool),
        environment=None if environment is None else _object(environment, "environment"),
    )


def _round(plain: dict[str, Any]) -> tuple[Round, tuple[Piece, ...], list[tuple[int, str]], float]:
    if plain.get("end") is True:
        _wrong("only the last line says how it ended.")
    made = Round(
        method=_get(plain, "method", str),
        source=_get(plain, "source", str),
        drafted=_numbers(plain, "drafted", int),
        accepted=_get(plain, "accepted", int),
        emitted=_numbers(plain, "emitted", int),
        p=_numbers(plain, "p", float),
        q=_numbers(plain, "q", float),
        limit=_optional(plain, "limit", int) or 0,
        draft_s=_get(plain, "draft_s", float),
        verify_s=_get(plain, "verify_s", float),
        sample_s=_get(plain, "sample_s", float),
        total_s=_get(plain, "total_s", float),
        finish=_finish(plain),
        logprobs=tuple(_logprob(each) for each in _list(plain.get("logprobs", []), "logprobs")),
    )
    pieces = tuple(_piece(_object(each, "pieces")) for each in _list(plain.get("pieces"), "pieces"))
    _consistent(made, pieces)
    names = [_name(each) for each in _list(plain.get("names", []), "names")]
    return made, pieces, names, _get(plain, "t", float)


def _consistent(made: Round, pieces: tuple[Piece, ...]) -> None:
    if made.accepted > len(made.drafted):
        _wrong(f'"accepted" is {made.accepted} of {len(made.drafted)} drafted tokens.')
    if len(made.emitted) not in (made.accepted, made.accepted + 1) or not made.emitted:
        _wrong(f'"emitted" has {len(made.emitted)} tokens, which can\'t be after {made.accepted} accepted ones.')
    if len(pieces) != len(made.emitted):
        _wrong(f'"pieces" has {len(pieces)} texts for {len(made.emitted)} tokens.')
    if len(made.p) != len(made.q) or len(made.p) > len(made.drafted):
        _wrong('"p" and "q" have one number for each tested token.')
    if made.logprobs and len(made.logprobs) != len(made.emitted):
        _wrong('"logprobs" has one entry for each emitted token.')


def _end(plain: dict[str, Any], answer: Answer) -> None:
    answer.finish, answer.seed = _finish(plain), _optional(plain, "seed", int)
    answer.prompt_tokens, answer.reused_tokens = (
        _get(plain, name, int) for name in ("prompt_tokens", "reused_tokens")
    )
    for name in ("prefill_s", "ttft_s", "decode_s", "total_s"):
        setattr(answer, name, _optional(plain, name, float))
    answer.tail, answer.error = _optional(plain, "tail", str) or "", _optional(plain, "error", str)


def _piece(plain: dict[str, Any]) -> Piece:
    texts = (_get(plain, name, str) for name in ("text", "provenance", "ghost"))
    return Piece(_get(plain, "token", int), *texts)


def _logprob(plain: Any) -> LogProb:
    try:
        token, logprob, top = plain
        return LogProb(int(token), float(logprob), tuple((int(t), float(p)) for t, p in top))
    except (TypeError, ValueError, OverflowError):
        _wrong('an entry of "logprobs" is not [token, number, [[token, number], ...]].')


def _name(plain: Any) -> tuple[int, str]:
    match plain:
        case [int(token), str(text)]:
            return token, text
    _wrong('an entry of "names" is not [token, text].')


def _finish(plain: dict[str, Any]) -> Finish | None:
    value = plain.get("finish")
    known = [each.value for each in Finish]
    if value is not None and value not in known:
        _wrong(f'"finish" is {json.dumps(value)[:40]}; it may be null or one of {", ".join(known)}.')
    return None if value is None else Finish(value)


def _get(plain: Mapping[str, Any], name: str, kind: type[T]) -> T:
    if name not in plain:
        _wrong(f'"{name}" is missing.')
    return _value(plain[name], name, kind)


def _optional(plain: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    return None if plain.get(name) is None else _value(plain[name], name, kind)


def _value(value: Any, name: str, kind: type[T]) -> T:
    wanted: tuple[type, ...] = (int, float) if kind is float else (kind,)
    fits = isinstance(value, wanted) and (kind is bool or not isinstance(value, bool))
    if not fits or (kind in (int, float) and not (0 <= value < math.inf)):
        _wrong(f'"{name}" is {json.dumps(value)[:40]}, not {_KIND[kind]}.')
    return kind(value)  # type: ignore[call-arg]


def _numbers(plain: dict[str, Any], name: str, kind: type[T]) -> tuple[T, ...]:
    return tuple(_value(value, name, kind) for value in _list(plain.get(name), name))


def _list(value: Any, name: str) -> list[Any]:
    return value if isinstance(value, list) else _wrong(f'"{name}" is not a list.')


def _object(value: Any, name: str) -> dict[str, Any]:
    return value if isinstance(value, dict) else _wrong(f'"{name}" holds something that is no JSON object.')


def _wrong(what: str) -> NoReturn:
    raise _Wrong(what)
