"""The speculative loop: draft, let the target read the draft in one pass, keep what the exact rule keeps.

Knows token ids only; no text, no model format, no process. The drafter and the length policy may be exchanged
between two rounds: every round reads them afresh, and drafters find their own way back by the common prefix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.random import Generator, SeedSequence, default_rng

from localspec.errors import PromptTooLong, UsageError
from localspec.spec.constraint import ConstrainedRows, Constraint
from localspec.spec.context import TokenBuffer, rewind_to_common
from localspec.spec.length import Length
from localspec.spec.sampling import LazyRows, log_probability
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft, Drafter, Finish, LanguageModel, Logits, LogProb, Round, Token, Tokens
from localspec.spec.verify import Verifier, proposal, verify_block

Ending = Callable[[Token], Finish | None]
Progress = Callable[[int, int], None]


class SpeculativeDecoder:
    """Generates from one target. `drafter`, `length`, `verifier` and `rows` may be replaced between rounds."""

    def __init__(
        self, model: LanguageModel, drafter: Drafter, length: Length, verifier: Verifier = verify_block
    ) -> None:
        self.model, self.drafter, self.length, self.verifier = model, drafter, length, verifier
        self.reread = 0  # tokens that a cache which lost its text had to read again in the middle of an answer
        self.rows = min(model.max_rows, model.n_batch)  # the most in one pass; lowered for strict numerics

    def prefill(
        self, prompt: Tokens, progress: Progress, stopped: Callable[[], bool], chunk: int | None = None
    ) -> int:
        """Bring the cache to `prompt` but for its last token, which the first round decodes.

        Returns how many tokens were still cached. `progress(done, total)` after each chunk; `stopped()` is asked
        between chunks, and the cache then holds what was read. Raises PromptTooLong.
        """
        if not len(prompt):
            raise UsageError("The prompt is empty.", "A model needs at least one token to go on from.")
        if len(prompt) >= self.model.n_ctx:
            raise PromptTooLong(len(prompt), self.model.n_ctx)
        return self._bring_to(prompt[:-1], progress, stopped, chunk)

    def _bring_to(
        self,
        tokens: Tokens,
        progress: Progress,
        stopped: Callable[[], bool] = lambda: False,
        chunk: int | None = None,
    ) -> int:
        wanted = np.asarray(tokens, np.int32)
        done = reused = rewind_to_common(self.model, wanted)
        while done < wanted.size and not stopped():
            step = wanted[done : done + min(chunk or self.model.n_batch, self.model.n_batch)]
            self.model.decode(step, rows=0)
            done += step.size
            progress(done, wanted.size)
        return reused

    def generate(
        self,
        prompt: Tokens,
        sampling: Sampling,
        seed: int,
        ending: Ending,
        max_tokens: int | None = None,
        logprobs: int | None = None,
        constraint: Constraint | None = None,
    ) -> Iterator[Round]:
        """Yield rounds until one carries a `finish`. Stop iterating to cancel: the cache is consistent after each.

        `prefill` must have read the prompt. `ending` is asked once for each emitted token, in order; the answer is
        cut after the first token for which it returns a reason. With `logprobs` N every emitted token comes with
        its log-probability and the N most likely alternatives. `constraint` is that of the first token.
        """
        sampling.check(self.model.n_vocab)
        # Separate streams: what the drafter draws must not move the target's own draws.
        verify_rng, draft_rng = (default_rng(s) for s in SeedSequence(seed).spawn(2))
        end, full = self._bound(len(prompt), max_tokens)
        turn = _Turn(TokenBuffer(prompt), sampling, verify_rng, draft_rng, ending, end, full, logprobs, constraint)
        while True:
            done = self._round(turn)
            yield done
            if done.finish is not None:
                return

    def _bound(self, prompt: int, max_tokens: int | None) -> tuple[int, Finish]:
        """The context length at which the answer must end, and the reason that it then gives."""
        if max_tokens is not None and max_tokens < 1:
            raise UsageError(f"--max-tokens is {max_tokens}.", "It must be at least 1.")
        if max_tokens is not None and prompt + max_tokens <= self.model.n_ctx:
            return prompt + max_tokens, Finish.LENGTH
        return self.model.n_ctx, Finish.CONTEXT

    def _round(self, turn: _Turn) -> Round:
        started = perf_counter()
        drafter, limit = self.drafter, self._limit(turn)
        draft = drafter.draft(turn.context.view, limit, turn.sampling, turn.draft_rng) if limit else Draft()
        drafted_at = perf_counter()
        block = turn.context.view[-1:]
        if draft.tokens:
            block = np.concatenate((block, np.asarray(draft.tokens, np.int32)))
        logits = self.model.decode(block, rows=block.size)
        decoded_at = perf_counter()
        rows = _rows(turn, logits, draft.tokens)
        verdict = self.verifier(rows, draft, turn.verify_rng)
        emitted, finish = _cut((*draft.tokens[: verdict.accepted], verdict.token), turn.ending)
        accepted = min(verdict.accepted, len(emitted))
        tested = accepted if len(emitted) == accepted else min(accepted + 1, len(draft.tokens))
        p = tuple(rows[i].prob(draft.tokens[i]) for i in range(tested))
        q = tuple(proposal(draft, i).prob(draft.tokens[i]) for i in range(tested))
        logprobs = _logprobs(logits, emitted, turn.logprobs)
        verified_at = perf_counter()
        turn.extend(emitted)
        # Otherwise the cache holds all but the last token already, which opens the next block.
        if len(emitted) < block.size:
            left = self._bring_to(turn.context.view[:-1], lambda done, total: None)
            self.reread += len(turn.context) - 1 - left
        finish = finish or (turn.full if len(turn.context) == turn.end else None)
        done = Round(
            method=drafter.name,
            source=draft.source if draft.tokens else "off",
            drafted=draft.tokens,
            accepted=accepted,
            emitted=emitted,
            p=p,
            q=q,
            limit=limit,
            draft_s=drafted_at - started,
            verify_s=decoded_at - drafted_at,
            sample_s=verified_at - decoded_at,
            total_s=perf_counter() - started,
            finish=finish,
            logprobs=logprobs,
        )
        self.length.observe(done)
        return done

    def _limit(self, turn: _Turn) -> int:
        """A round emits at most limit + 1 tokens, so the budget can be met but never passed."""
        room = turn.end - len(turn.context) - 1
        return max(0, min(self.length.next(), room, self.rows - 1))


@dataclass(slots=True)
class _Turn:
    """What stays the same from round to round of one answer; only the context grows, and the constraint follows."""

    context: TokenBuffer
    sampling: Sampling
    verify_rng: Generator
    draft_rng: Generator
    ending: Ending
    end: int
    full: Finish
    logprobs: int | None
    constraint: Constraint | None

    def extend(self, tokens: tuple[Token, ...]) -> None:
        self.context.extend(tokens)
        if self.constraint is not None:
            for token in tokens:
                self.constraint = self.constraint.after(token)
                assert self.constraint is not None, "a token was emitted that the constraint forbids"


def _rows(turn: _Turn, logits: Logits, drafted: tuple[Token, ...]) -> LazyRows:
    if turn.constraint is None:
        return LazyRows(logits, turn.context.view, drafted, turn.sampling)
    return ConstrainedRows(logits, turn.context.view, drafted, turn.sampling, turn.constraint)


def _cut(tokens: tuple[Token, ...], ending: Ending) -> tuple[tuple[Token, ...], Finish | None]:
    for i, token in enumerate(tokens):
        if finish := ending(token):
            return tokens[: i + 1], finish
    return tokens, None


def _logprobs(logits: Logits, emitted: tuple[Token, ...], top: int | None) -> tuple[LogProb, ...]:
    """Row i is where token i was emitted, whether it was drafted or the target's own."""
    if top is None:
        return ()
    return tuple(log_probability(logits[i], token, top) for i, token in enumerate(emitted))
