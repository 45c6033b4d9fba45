"""What a model's cache can take back, and how. The only place that knows.

PART  any tail can be cut: plain attention, and windowed attention with a cache of full size
RS    recurrent state, of which llama.cpp keeps the last few steps
FULL  recurrent state that can only be dropped as a whole
SWA   windowed attention whose cache drops what lies before the window
NONE  no memory at all: the model cannot generate

What can't be cut goes back to a checkpoint, and the few tokens after it are read again. One checkpoint is taken
before each batch that may have to be taken back, others where a turn begins and where its prompt ends.

llama.cpp says that it cut where it did not: recurrent state steps back to a stale copy, a window comes up empty. So
`_undo` says how many tokens can really be cut, and after each change the positions are compared with what the cache
should hold. Any doubt clears it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from localspec.errors import CannotRewind, ModelError
from localspec.llama.checkpoints import ON_DEVICE, PARTIAL, Checkpoint, Ring, restore, save
from localspec.llama.native import Pointer, lc

REPLAY = 128  # tokens that a rewind reads again by itself; more is for the caller, who can show it and be stopped
SPACING = 32  # tokens between two checkpoints that are kept: less is read again in no time

Replay = Callable[[int, int], None]  # decodes the cached tokens from here to there once more


class Rollback(StrEnum):
    PART = "PART"
    RS = "RS"
    FULL = "FULL"
    SWA = "SWA"
    NONE = "NONE"


class Memory:
    """The cache of one context, one sequence."""

    def __init__(self, context: Pointer, model: Pointer, *, swa_full: bool) -> None:
        self._context = context
        self._memory: Pointer = lc.llama_get_memory(context)
        self._has_window = lc.llama_model_n_swa(model) > 0
        self._windowed = self._has_window and not swa_full
        self._snapshots: int = lc.llama_n_rs_seq(context)
        self.rollback = Rollback.NONE
        self._ring = Ring()
        self._step: Checkpoint | None = None
        self._undo = 0
        self._reads = True  # the last decode read a prompt
        self._replayed = False  # the cache has gone back to a checkpoint, and nothing was generated since

    def probe(self, decode_two: Callable[[], object]) -> None:
        """Find out by trying. `decode_two` puts two tokens into the empty cache; it is empty again afterwards."""
        if not self._memory:
            return
        decode_two()
        partial: bool = lc.llama_memory_seq_rm(self._memory, 0, 1, -1)
        if self._snapshots > 0:
            self.rollback = Rollback.RS
        elif not partial:
            self.rollback = Rollback.FULL
        else:
            self.rollback = Rollback.SWA if self._windowed else Rollback.PART
        self.clear()

    @property
    def speculation_off(self) -> str | None:
        if self.rollback is not Rollback.NONE:
            return None
        return "speculation is off for this model because it keeps no memory of the text"

    def held(self) -> int:
        """How many tokens the cache holds now, by its own account."""
        last: int = lc.llama_memory_seq_pos_max(self._memory, 0)
        return last + 1

    def before_decode(self, held: int, tokens: int, rows: int) -> None:
        """Take the checkpoints that a rewind after this decode may need."""
        if self.rollback in (Rollback.PART, Rollback.NONE):
            return
        reads = rows == 0
        if reads is not self._reads:
            self._keep(held)
        # Whoever was taken back will be again: a draft model asks for single rows and rewinds many of them.
        if rows - 1 > self._undoable(tokens) or (self._replayed and not reads):
            self._step = save(self._context, held, PARTIAL if self._has_window else PARTIAL | ON_DEVICE)
        self._reads, self._replayed = reads, self._replayed and reads

    def after_decode(self, tokens: int) -> None:
        if self.rollback not in (Rollback.PART, Rollback.NONE):
            self._undo = self._undoable(tokens)

    def reusable(self, held: int, length: int) -> int:
        """The longest prefix, at most `length` of the `held` tokens, that `rewind` really reaches."""
        if length == held or self._can_cut(held, length):
            return length
        base = self._base(length)
        return length if length - base <= REPLAY else base

    def rewind(self, held: int, length: int, replay: Replay) -> None:
        """Cut `held` tokens to `length`. Raises CannotRewind: either nothing has changed and `reachable` is shorter
        than `length`, or the cache is empty."""
        if length == held:
            return
        if length == 0:
            return self.clear()
        if (reachable := self.reusable(held, length)) < length:
            raise CannotRewind(
                f"This model's cache ({self.rollback}) can't go back from {held} to {length} tokens.",
                "The text has to be read again.",
                reachable,
            )
        done = self._cut(held, length) if self._can_cut(held, length) else self._return(length, replay)
        if not done or self.held() != length:
            self.clear()
            raise CannotRewind("llama.cpp lost the cache while cutting it.", "The text has to be read again.")
        self._forget(length)

    def clear(self) -> None:
        lc.llama_memory_clear(self._memory, False)
        self._undo, self._reads, self._replayed = 0, True, False
        self._forget(0)
        if self.held() != 0:
            raise ModelError("llama.cpp did not clear the cache.", "Load the model again.")

    def recover(self, length: int) -> int:
        """After a decode that failed half-way: back to `length` tokens, or to none. Returns what is left."""
        if self.rollback is Rollback.PART:
            lc.llama_memory_seq_rm(self._memory, 0, length, -1)
            if self.held() == length:
                return length
        self.clear()
        return 0

    def _undoable(self, tokens: int) -> int:
        """How many tokens can be cut right after a decode of `tokens`."""
        match self.rollback:
            case Rollback.RS:  # llama.cpp keeps the steps of the last batch only, and says yes beyond it
                return min(self._snapshots, tokens - 1)
            case Rollback.SWA:  # cells are reused only when no token of the batch can see them
                return tokens
            case _:
                return 0

    def _can_cut(self, held: int, length: int) -> bool:
        return self.rollback is Rollback.PART or held - length <= self._undo

    def _cut(self, held: int, length: int) -> bool:
        # A second step back in a row, before a decode, is refused by recurrent state.
        self._undo = self._undo - (held - length) if self.rollback is Rollback.SWA else 0
        removed: bool = lc.llama_memory_seq_rm(self._memory, 0, length, -1)
        return removed

    def _base(self, length: int) -> int:
        checkpoint = self._last(length)
        return checkpoint.length if checkpoint else 0

    def _last(self, length: int) -> Checkpoint | None:
        """The checkpoint from which `length` is reached with the fewest tokens."""
        step = self._step if self._step and self._step.length <= length else None
        return max(filter(None, (step, self._ring.last(length))), key=lambda found: found.length, default=None)

    def _return(self, length: int, replay: Replay) -> bool:
        """Go back to the last checkpoint and read on from there."""
        checkpoint, self._undo, self._replayed = self._last(length), 0, True
        if checkpoint is None:
            lc.llama_memory_clear(self._memory, False)
        elif not restore(self._context, self._memory, checkpoint) or self.held() != checkpoint.length:
            return False
        start = checkpoint.length if checkpoint else 0
        try:
            if start < length:
                replay(start, length)
        except ModelError:
            return False
        return True

    def _keep(self, length: int) -> None:
        last = self._ring.last(length)
        if length - (last.length if last else 0) >= SPACING and (saved := save(self._context, length, PARTIAL)):
            self._ring.add(saved)

    def _forget(self, length: int) -> None:
        """Checkpoints beyond the text that is left belong to another text."""
        self._ring.cut(length)
        if self._step and self._step.length > length:
            self._step = None
