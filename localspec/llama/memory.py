"""What a model's cache can take back. The only place that knows.

PART  any tail can be removed: plain attention, and windowed attention with a cache of full size
RS    recurrent state with a few snapshots
FULL  recurrent state: only the whole sequence can be removed
SWA   windowed attention whose cache has dropped what lies before the window
NONE  no memory at all: the model cannot generate

A removal that llama.cpp reports as done is not proof: after each one the positions are compared with what the
cache should hold.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from localspec.errors import CannotRewind, ModelError
from localspec.llama.native import Pointer, lc

SNAPSHOTS = 8  # asked for on recurrent models; llama.cpp grants none where it has no way to use them


class Rollback(StrEnum):
    PART = "PART"
    RS = "RS"
    FULL = "FULL"
    SWA = "SWA"
    NONE = "NONE"


_OFF = {
    Rollback.RS: "its recurrent state can't yet be stepped back over rejected tokens",
    Rollback.FULL: "its recurrent state can't be stepped back over rejected tokens",
    Rollback.SWA: "its windowed cache drops what a rejected draft would need again",
    Rollback.NONE: "it keeps no memory of the text",
}


class Memory:
    """The cache of one context, one sequence."""

    def __init__(self, context: Pointer, model: Pointer, *, swa_full: bool) -> None:
        self._context = context
        self._memory: Pointer = lc.llama_get_memory(context)
        self._windowed = lc.llama_model_n_swa(model) > 0 and not swa_full
        self.rollback = Rollback.NONE

    def probe(self, decode_two: Callable[[], object]) -> None:
        """Find out by trying. `decode_two` puts two tokens into the empty cache; it is empty again afterwards."""
        if not self._memory:
            return
        decode_two()
        partial: bool = lc.llama_memory_seq_rm(self._memory, 0, 1, -1)
        self.clear()
        if lc.llama_n_rs_seq(self._context) > 0:
            self.rollback = Rollback.RS
        elif not partial:
            self.rollback = Rollback.FULL
        else:
            self.rollback = Rollback.SWA if self._windowed else Rollback.PART

    @property
    def speculation_off(self) -> str | None:
        reason = _OFF.get(self.rollback)
        return f"speculation is off for this model because {reason}" if reason else None

    def held(self) -> int:
        """How many tokens the cache holds now, by its own account."""
        last: int = lc.llama_memory_seq_pos_max(self._memory, 0)
        return last + 1

    def reusable(self, held: int, length: int) -> int:
        """The longest prefix, at most `length` of the `held` tokens, that `rewind` can really reach."""
        if self.rollback is Rollback.PART or length == held:
            return length
        return 0

    def rewind(self, held: int, length: int) -> None:
        """Cut `held` tokens to `length`. Raises CannotRewind and leaves the cache as it was, if it can't."""
        if length == held:
            return
        if length == 0:
            return self.clear()
        if self.reusable(held, length) != length:
            raise CannotRewind(
                f"This model's cache ({self.rollback}) can't go back from {held} to {length} tokens.",
                "The text has to be read again from its beginning.",
            )
        removed = lc.llama_memory_seq_rm(self._memory, 0, length, -1)
        if not removed or self.held() != length:
            self.clear()
            raise CannotRewind("llama.cpp lost the cache while cutting it.", "The text has to be read again.")

    def clear(self) -> None:
        lc.llama_memory_clear(self._memory, False)
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
