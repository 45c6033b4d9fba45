"""Answers as plain data, and back: what the store keeps of them and what an exported conversation holds.

Numbers of rounds are kept to six digits, so figures that are read back may differ in the seventh. The store keeps
log-probabilities to three places, which is more than is shown of them, and a third of their bytes.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, TypeAlias

from localspec.chat.answer import Answer
from localspec.chat.message import Piece
from localspec.chat.session import Asked
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, LogProb, Round

Plain: TypeAlias = Any  # what JSON holds
# What reading damaged parts may raise.
DAMAGE = (zlib.error, struct.error, ValueError, TypeError, KeyError, AttributeError, RecursionError)
_PLACES = 3
_FACTS = (
    *("method", "finish", "prompt_tokens", "reused_tokens", "seed", "error", "tail", "resumed"),
    *("prefill_s", "ttft_s", "decode_s", "total_s"),
)


def facts(answer: Answer, asked: Asked) -> dict[str, Plain]:
    """Everything about an answer but its rounds and pieces."""
    about = {name: getattr(answer, name) for name in _FACTS}
    return about | {"asked": asdict(asked)}


def sampling_of(plain: Plain) -> Sampling:
    return _sampling(json.dumps(plain))


@lru_cache(maxsize=64)
def _sampling(text: str) -> Sampling:
    """A long session has the same settings many times over."""
    plain = json.loads(text)
    bias = tuple((int(token), float(by)) for token, by in plain["logit_bias"])
    return Sampling(**plain | {"logit_bias": bias, "banned": tuple(plain["banned"])})


def asked_of(plain: Plain) -> Asked:
    asked = plain["asked"]
    return Asked(sampling_of(asked["sampling"]), asked["draft_tokens"], asked["verifier"], asked["model"])


def answer_fields(plain: Plain) -> dict[str, Any]:
    """What to make an Answer of; its rounds and pieces come apart."""
    finish = plain["finish"]
    return {name: plain[name] for name in _FACTS} | {"finish": None if finish is None else Finish(finish)}


def round_to_plain(made: Round) -> list[Plain]:
    seconds = (made.draft_s, made.verify_s, made.sample_s, made.total_s)
    return [
        *(made.method, made.source, made.drafted, made.accepted, made.emitted, _short(made.p), _short(made.q)),
        *(made.limit, *_short(seconds), made.finish),
    ]


def round_of(plain: Plain) -> Round:
    method, source, drafted, accepted, emitted, p, q, limit, *seconds, finish = plain
    made = Round(method, source, tuple(drafted), accepted, tuple(emitted), tuple(p), tuple(q), limit, *seconds)
    return made if finish is None else replace(made, finish=Finish(finish))


def piece_to_plain(piece: Piece) -> list[Plain]:
    plain: list[Plain] = [piece.text, piece.provenance]
    return [*plain, piece.ghost] if piece.ghost else plain


def logprobs_to_plain(rounds: Sequence[Round], places: int = 17) -> list[Plain]:
    """Apart from the rounds: most have none."""
    return [
        [[p.token, round(p.logprob, places), [(t, round(q, places)) for t, q in p.top]] for p in made.logprobs]
        for made in rounds
    ]


def logprobs_of(rounds: list[Round], plain: Plain) -> list[Round]:
    return [_with(made, each) for made, each in zip(rounds, plain, strict=True)] if plain else rounds


def _with(made: Round, plain: Plain) -> Round:
    found = tuple(LogProb(token, p, tuple((int(t), float(q)) for t, q in top)) for token, p, top in plain)
    return replace(made, logprobs=found) if found else made


def packed(
    rounds: Sequence[Round], pieces: Sequence[Piece], names: Mapping[int, str] | None = None
) -> tuple[bytes, bytes]:
    """A stretch of an answer: (its tokens, the rest). Of `names` only those that this stretch needs."""
    body = {"rounds": [round_to_plain(made) for made in rounds], "pieces": [piece_to_plain(p) for p in pieces]}
    if any(made.logprobs for made in rounds):
        seen = {token for made in rounds for token in made.considered}
        named = [[token, names[token]] for token in sorted(seen) if names and token in names]
        body |= {"logprobs": logprobs_to_plain(rounds, _PLACES), "names": named}
    tokens = struct.pack(f"<{len(pieces)}i", *(piece.token for piece in pieces))
    return tokens, zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)


def unpacked_tokens(tokens: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(tokens) // 4}i", tokens)


def unpacked(tokens: bytes, body: bytes) -> tuple[list[Round], list[Piece], dict[int, str]]:
    plain = json.loads(zlib.decompress(body))
    pairs = zip(unpacked_tokens(tokens), plain["pieces"], strict=True)
    rounds = logprobs_of([round_of(made) for made in plain["rounds"]], plain.get("logprobs"))
    return rounds, [Piece(token, *rest) for token, rest in pairs], dict(plain.get("names", ()))


def _short(numbers: Sequence[float]) -> list[float]:
    return [float(f"{number:.6g}") for number in numbers]
