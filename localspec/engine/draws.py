"""Are the first tokens of a block distributed as the target says? Many draws through the real rule, and a test.

A block is drafted by the real drafter at a real place, and the target's logits along it are kept. Then the rule is
run many times: for a drafter with a distribution, each time on a draft drawn anew from the rows that it handed over,
as if the model's logits depended on the place alone, which is one more model for which the rule must be exact. At each
position the tokens of those runs that got so far are compared with the target's distribution there. A second test
asks the drafter itself again and again, and compares what it proposes with what it says that it draws from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypeAlias

from numpy.random import Generator, default_rng

from localspec.spec.decoder import SpeculativeDecoder
from localspec.spec.distribution import Distribution, excess
from localspec.spec.goodness import p_value
from localspec.spec.sampling import LazyRows
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Logits, Token
from localspec.spec.verify import Verifier, proposal

K = 4  # tokens drafted: enough to see a fault that only shows behind an accepted token
SEED = 1
SETTINGS = {
    "T=0.7": Sampling(temperature=0.7, top_k=0, top_p=1.0, min_p=0.0),
    "T=0.7, truncated": Sampling(temperature=0.7),
    "T=1": Sampling(temperature=1.0, top_k=0, top_p=1.0, min_p=0.0),
    "T=1, truncated": Sampling(temperature=1.0),
}
Context: TypeAlias = tuple[Token, ...]
Reader: TypeAlias = Callable[[Context, tuple[Token, ...]], Logits]
_ENOUGH = 200  # draws at a position, below which nothing can be said


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is tried. Draws from a whole vocabulary take far longer than those from a few tokens."""

    places: int  # in the text, for each setting
    draws: int
    whole: int  # draws where nothing is truncated
    proposals: int


@dataclass(frozen=True, slots=True)
class Trial:
    setting: str
    what: str  # "token 1" of a block, or "proposal"
    draws: int
    p: float


@dataclass(frozen=True, slots=True)
class Block:
    context: Context
    draft: Draft
    p: tuple[Distribution, ...]

    @property
    def telling(self) -> float:
        """How much a wrong rule would show: acceptance neither certain nor hopeless, at places that are reached."""
        reached, score = 1.0, 0.0
        for i in range(len(self.draft.tokens)):
            accepted = 1.0 - float(excess(self.p[i], proposal(self.draft, i)).sum())
            score += reached * accepted * (1 - accepted)
            reached *= accepted
        return score


def reader(decoder: SpeculativeDecoder) -> Reader:
    """The target's logits after a context and along a draft, read as the loop reads them. Many trials share one."""

    @lru_cache(maxsize=24)
    def read(context: Context, drafted: tuple[Token, ...]) -> Logits:
        _go_to(decoder, context)
        block = (context[-1], *drafted)
        return decoder.model.decode(block, rows=len(block)).copy()

    return read


def _go_to(decoder: SpeculativeDecoder, context: Context) -> None:
    """As before a round. Some drafters look at what the target has read."""
    decoder.prefill(context, lambda done, total: None, lambda: False)


def trials(
    decoder: SpeculativeDecoder, read: Reader, contexts: Sequence[Context], effort: Effort
) -> Iterator[Trial]:
    """All trials of the method in use; `contexts` are texts after which it may draft."""
    for setting, sampling in SETTINGS.items():
        rng = default_rng(SEED)
        blocks = _blocks(decoder, read, contexts, sampling, effort.places, rng)
        for block in blocks:
            n = effort.whole if block.p[0].ids is None else effort.draws
            for i, counts in enumerate(_emitted(block, decoder.verifier, n, rng)):
                if counts.total() >= _ENOUGH:
                    yield Trial(setting, f"token {i + 1}", counts.total(), p_value(counts, block.p[i]))
        if drawn := next((block for block in blocks if block.draft.probs is not None), None):
            yield _proposals(setting, decoder, drawn.context, sampling, effort.proposals, rng)


def _blocks(
    decoder: SpeculativeDecoder,
    read: Reader,
    contexts: Sequence[Context],
    sampling: Sampling,
    places: int,
    rng: Generator,
) -> list[Block]:
    """The most telling of the first places where something is drafted; without any, a place without a draft."""
    limit, found = min(K, decoder.rows - 1), list[Block]()
    for context in contexts if limit else ():
        _go_to(decoder, context)
        draft = decoder.drafter.draft(context, limit, sampling, rng)
        if draft.tokens:
            found.append(_block(read, context, draft, sampling))
        if len(found) == 4 * places:
            break
    found = found or [_block(read, contexts[0], Draft(), sampling)]
    return sorted(found, key=lambda block: -block.telling)[:places]


def _block(read: Reader, context: Context, draft: Draft, sampling: Sampling) -> Block:
    rows = LazyRows(read(context, draft.tokens), context, draft.tokens, sampling)
    return Block(context, draft, tuple(rows[i] for i in range(len(draft.tokens) + 1)))


def _emitted(block: Block, verifier: Verifier, n: int, rng: Generator) -> list[Counter[Token]]:
    """What `n` runs of the rule emit, by position."""
    counts = [Counter[Token]() for _ in block.p]
    draft = block.draft
    for _ in range(n):
        if draft.probs is not None:
            draft = replace(draft, tokens=tuple(q.sample(rng) for q in draft.probs))
        verdict = verifier(block.p, draft, rng)
        for place, token in zip(counts, (*draft.tokens[: verdict.accepted], verdict.token), strict=False):
            place[token] += 1
    return counts


def _proposals(
    setting: str, decoder: SpeculativeDecoder, context: Context, sampling: Sampling, n: int, rng: Generator
) -> Trial:
    """What the drafter draws, against what it says that it draws from."""
    _go_to(decoder, context)
    drafts = [decoder.drafter.draft(context, 1, sampling, rng) for _ in range(n)]
    drawn = [draft for draft in drafts if draft.probs]
    counts = Counter(draft.tokens[0] for draft in drawn)
    said = drawn[0].probs if drawn else None
    return Trial(setting, "proposal", len(drawn), p_value(counts, said[0]) if said else 1.0)
