"""Greedy text with drafts against greedy text without, token by token, and what a difference means.

Where the logits of a batch differ from those of single rows, a near tie may fall the other way: noise, as between two
backends. A difference with a gap that the noise can't close is a fault of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from localspec.engine.loaded import Loaded
from localspec.spec.numerics import both_ways, difference
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, Logits, Round, Token

GREEDY = Sampling(temperature=0)
NONE: Token = -1  # where a text has ended


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two texts part. `gap` is what the target, asked alone, gives the plain token more than
    the other one; `noise` the largest change of a logit when it is asked for up to `rows` rows at once, as it was up
    to there. Where one text ended and the other went on there is nothing to ask: `rows` is 0."""

    prompt: int
    position: int
    plain: Token
    other: Token
    gap: float
    noise: float
    rows: int

    @property
    def verdict(self) -> str:
        # Both logits may move by the noise, towards each other.
        return "near tie" if self.noise > 0.0 and self.gap <= 2 * self.noise else "BUG"


def greedy(loaded: Loaded, prompt: Sequence[Token], tokens: int) -> list[Round]:
    """The rounds of a greedy answer of at most `tokens` tokens, with the method in use."""
    decoder, eog = loaded.decoder, loaded.eog
    decoder.prefill(prompt, lambda done, total: None, lambda: False)
    end = {token: Finish.STOP for token in eog}
    return list(decoder.generate(prompt, GREEDY, 0, end.get, tokens, logprobs=0))


def text(rounds: Sequence[Round]) -> list[Token]:
    return [token for done in rounds for token in done.emitted]


def compare(
    loaded: Loaded, number: int, prompt: Sequence[Token], plain: Sequence[Token], rounds: Sequence[Round]
) -> Difference | None:
    """The first difference between an answer and the plain one to the same prompt; None where they are equal."""
    start = 0
    passes: list[_Pass] = []
    for done in rounds:
        wanted = tuple(plain[start : start + len(done.emitted)])
        passes.append(_Pass((*prompt, *plain[:start]), done.drafted))
        if done.emitted != wanted:
            same = next(
                (i for i, pair in enumerate(zip(done.emitted, wanted, strict=False)) if pair[0] != pair[1]), -1
            )
            if same < 0:  # one ended and the other went on, which no arithmetic explains
                return Difference(number, start + len(wanted), NONE, done.emitted[len(wanted)], inf, 0.0, 0)
            found = Difference(number, start + same, wanted[same], done.emitted[same], 0.0, 0.0, 0)
            return _explained(loaded, found, prompt, plain[: start + same], passes)
        start += len(done.emitted)
    return None if start == len(plain) else Difference(number, start, plain[start], NONE, inf, 0.0, 0)


@dataclass(frozen=True, slots=True)
class _Pass:
    """What the target read in one round: the last token of the context, and the draft."""

    context: tuple[Token, ...]
    drafted: tuple[Token, ...]

    def both_ways(self, loaded: Loaded) -> tuple[Logits, Logits]:
        return both_ways(loaded.target, self.context[:-1], (self.context[-1], *self.drafted))


def _explained(
    loaded: Loaded, found: Difference, prompt: Sequence[Token], before: Sequence[Token], passes: Sequence[_Pass]
) -> Difference:
    """Ask the target again. The noise is that of the last pass or of the widest one, whichever is larger: what a pass
    leaves in the cache is as noisy as its logits."""
    widest = max(passes, key=lambda done: len(done.drafted))
    noise = max(difference(*done.both_ways(loaded)) for done in (passes[-1], widest))
    rows, known = len(widest.drafted) + 1, loaded.info.numerics
    if known is not None and rows > known.widest:
        noise = max(noise, known.noise)
    row = _plain_row(loaded, prompt, before)
    return replace(found, gap=float(abs(row[found.plain] - row[found.other])), noise=noise, rows=rows)


def _plain_row(loaded: Loaded, prompt: Sequence[Token], text: Sequence[Token]) -> Logits:
    """The logits after `text` as plain decoding has them: one token after the other behind the prompt."""
    loaded.decoder.prefill(prompt, lambda done, total: None, lambda: False)
    for token in (prompt[-1], *text):
        row: Logits = loaded.target.decode((token,), rows=1)[0]
    return row
