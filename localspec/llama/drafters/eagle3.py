"""EAGLE-3 (Li et al. 2025): a one-layer head that goes on from the target's hidden states, token by token.

An encoder condenses what entered three layers of the target into one state g for each position. The head's row at
position P is the pair (token at P + 1, g at P), so the row behind the last known token waits for that token. Drafted
tokens have no g; their rows take the head's own state instead, and are cut off again when the draft is done.

A reduced vocabulary is scattered to the target's by llama.cpp: ids that the head doesn't know have no probability.
"""

from __future__ import annotations

from typing import ClassVar

from localspec.llama.drafters.draws import Following
from localspec.llama.drafters.follower import Follower
from localspec.spec.types import Logits, Token, Tokens


class Eagle3(Follower):
    name: ClassVar[str] = "eagle3"
    waiting: ClassVar[int] = 1

    def _following(self, context: Tokens, limit: int) -> Following:
        last, head = len(context) - 1, self._context
        for start, end in self._behind(last):
            self._write(start, end, context, wanted=end == last)
        self._features.drop(last - 1)

        def row(token: Token | None) -> Logits:
            if token is not None:
                head.decode(head.end, (token,), head.states()[-1:], wanted=True)
            logits: Logits = head.logits()[-1]
            return logits

        return row

    def _write(self, start: int, end: int, tokens: Tokens, *, wanted: bool = False) -> None:
        g = self._context.encode(self._features[start:end], start)
        self._context.decode(start, tokens[start + 1 : end + 1], g, wanted=wanted)
