"""What is known about one token of an answer: who proposed it, how sure both models were, and what its round cost.

Pure functions over an answer; they know no screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

from localspec.chat.answer import Answer
from localspec.chat.numbers import milliseconds
from localspec.chat.text import visible
from localspec.spec.types import LogProb, Round

_LONGEST = 32  # characters of a quoted text
_ALTERNATIVES = 4


@dataclass(frozen=True, slots=True)
class Place:
    """A token is the one at `position` of those that round number `round` emitted. Both count from 0."""

    round: int
    position: int


def places(rounds: Sequence[Round], start: int = 0) -> Iterator[Place]:
    """One for each token that `rounds[start:]` emitted."""
    for number in range(start, len(rounds)):
        for position in range(len(rounds[number].emitted)):
            yield Place(number, position)


def quoted(text: str) -> str:
    """On one line and in quotes, every character visible."""
    shown = visible(text).replace("\n", "↵").replace("\t", "⇥")
    return f'"{shown if len(shown) <= _LONGEST else shown[: _LONGEST - 1] + "…"}"'


def inspected(
    answer: Answer, index: int, place: Place, verifier: str = "block", missing: str = ""
) -> tuple[str, str]:
    """(the token, what there is to say about it): for people, on one line. `missing`: why alternatives are not known,
    where they are not."""
    piece, made = answer.pieces[index], answer.rounds[place.round]
    parts = [f"round {place.round + 1}", *_origin(made, place.position, piece.ghost, verifier)]
    if made.drafted:
        parts.append(f"drafted {len(made.drafted)}, accepted {made.accepted}")
    parts.append(f"round {milliseconds(made.total_s)}")
    if made.logprobs:
        parts += _alternatives(answer, made.logprobs[place.position])
    elif missing:
        parts.append(f"alternatives: {missing}")
    return quoted(piece.text) if piece.text else "(no text)", " · ".join(parts)


def _origin(made: Round, position: int, ghost: str, verifier: str) -> Iterator[str]:
    if not made.drafted:
        yield "plain: nothing was drafted"
    elif position < made.accepted:
        yield made.source
        yield f"position {position + 1} of {len(made.drafted)}"
        yield from _odds(made, position, verifier)
    elif made.accepted == len(made.drafted):
        yield "bonus: the model's own, after a draft that was right to its end"
    else:
        rejected = f", instead of {quoted(ghost)} by {made.source}" if ghost else f", instead of {made.source}'s"
        yield f"correction: the model's own at position {position + 1} of {len(made.drafted)}{rejected}"
        yield from _odds(made, position, verifier)


def _odds(made: Round, position: int, verifier: str) -> Iterator[str]:
    """Both probabilities of the drafted token, and what the rule makes of them.

    Above one drawn token the block rule looks at the whole draft: only its joint ratio can be told afterwards.
    """
    if position >= min(len(made.p), len(made.q)):
        return
    p, q = made.p[position], made.q[position]
    yield f"p {_number(p)}"
    yield f"q {_number(q)}"
    if q <= 0 or "=" in verifier:  # a lossy rule asks neither
        return
    if verifier == "token" or all(each == 1 for each in made.q):
        yield f"accepted with probability {_number(min(1.0, p / q))}"
    else:
        yield f"joint ratio {_number(_joint(made, position))}"


def _joint(made: Round, position: int) -> float:
    ratio = 1.0
    for p, q in list(zip(made.p, made.q, strict=False))[: position + 1]:
        ratio = min(1.0, ratio * p / q) if q > 0 else 0.0
    return ratio


def _alternatives(answer: Answer, known: LogProb) -> Iterator[str]:
    """The model's own probabilities, before temperature and filters. Where nobody told a token's text, its number
    stands for it."""
    texts = {piece.token: piece.text for piece in answer.pieces if piece.text} | answer.names
    yield f"the model's own {_number(exp(known.logprob))}"
    others = [(token, logprob) for token, logprob in known.top if token != known.token][:_ALTERNATIVES]
    if others:
        named = (f"{quoted(texts[t]) if t in texts else f'#{t}'} {_number(exp(lp))}" for t, lp in others)
        yield f"else {', '.join(named)}"


def _number(probability: float) -> str:
    """1, 0.82, 0.031: two figures that mean something. What is almost 1 doesn't read as 1."""
    if probability in (0.0, 1.0):
        return f"{probability:.0f}"
    if probability > 0.995:
        return ">0.99"
    return "<0.0001" if probability < 0.0001 else f"{probability:.2g}"
