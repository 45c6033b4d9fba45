"""An answer's events as JSON, for two localspecs that talk over HTTP: `localspec serve` and the remote engine.

A server of another make sends text only; with these, rounds arrive as they were. Knows no HTTP.
"""

from __future__ import annotations

from typing import Any

from localspec.chat.codec import logprobs_of, logprobs_to_plain, piece_to_plain, round_of, round_to_plain
from localspec.chat.message import Piece
from localspec.engine.messages import Emitted, Environment, Finished, Prefill
from localspec.spec.types import Finish

_ENDING = ("seed", "prompt_tokens", "reused_tokens", "prefill_s", "ttft_s", "decode_s", "total_s", "tail")


def to_plain(event: Prefill | Emitted | Finished) -> dict[str, Any]:
    match event:
        case Prefill():
            return {"prefill": [event.done, event.total, event.reused]}
        case Emitted():
            plain: dict[str, Any] = {
                "rounds": [round_to_plain(made) for made in event.rounds],
                "pieces": [[piece.token, *piece_to_plain(piece)] for piece in event.pieces],
                "why": event.why,
            }
            if any(made.logprobs for made in event.rounds):
                plain |= {"logprobs": logprobs_to_plain(event.rounds), "names": event.names}
            return plain
        case Finished():
            return {"finish": event.reason.value} | {name: getattr(event, name) for name in _ENDING}


def of_plain(plain: dict[str, Any], turn: int, environment: Environment) -> Prefill | Emitted | Finished:
    """Raises KeyError, TypeError or ValueError for what is none."""
    if "prefill" in plain:
        done, total, reused = plain["prefill"]
        return Prefill(turn, done, total, reused)
    if "finish" in plain:
        facts = {name: plain[name] for name in _ENDING}
        return Finished(turn=turn, reason=Finish(plain["finish"]), environment=environment, **facts)
    rounds = logprobs_of([round_of(made) for made in plain["rounds"]], plain.get("logprobs"))
    names = tuple((int(token), str(name)) for token, name in plain.get("names", ()))
    pieces = tuple(Piece(token, *rest) for token, *rest in plain["pieces"])
    return Emitted(turn, tuple(rounds), pieces, plain.get("why", ""), names)
