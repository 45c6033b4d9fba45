"""DFlash: a head that drafts a whole block in one pass.

What entered some layers of the target is put into the head's cache at the same positions. A block is the last known
token and one mask for each word to be drafted; the masks are filled in all at once. Given the context the rows of a
block don't depend on each other's tokens, so a token drawn from each row has that row as its distribution.

DSpark adds a bias that follows the most likely tokens of the rows before. Its rows are as certain before anything is
drawn, so the same holds for them.
"""

from __future__ import annotations

from typing import ClassVar

from localspec.llama.drafters.draws import Following
from localspec.llama.drafters.follower import Follower
from localspec.llama.heads import anchored
from localspec.spec.types import Tokens


class DFlash(Follower):
    name: ClassVar[str] = "dflash"
    waiting: ClassVar[int] = 0

    def _following(self, context: Tokens, limit: int) -> Following:
        last, header = len(context) - 1, self.head.header
        for start, end in self._behind(last):
            self._write(start, end, context)
        self._features.drop(last)
        skipped = 0 if anchored(header) else 1  # the row of the last known token itself
        masks = [header.number("tokenizer.ggml.mask_token_id")] * (limit - 1 + skipped)
        self._context.decode(last, [int(context[last]), *masks], None, wanted=True)
        rows = iter(self._context.logits()[skipped:])
        return lambda _: next(rows)

    def _write(self, start: int, end: int, tokens: Tokens, *, wanted: bool = False) -> None:
        self._context.decode(start, None, self._features[start:end], wanted=wanted)
