"""A language model on llama.cpp's low-level calls: the LanguageModel of spec/types.py.

llama.cpp ends the process on most wrong arguments. So every size is checked here first, and a request that breaks
a rule is a ModelError that leaves the cache as `cached` says.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from localspec import gguf
from localspec.errors import ModelError, UsageError
from localspec.llama import devices
from localspec.llama.batch import Batch
from localspec.llama.choices import Attention, Choices, Machine, choose
from localspec.llama.load import Progress, open_context, open_weights
from localspec.llama.memory import Memory
from localspec.llama.native import Native, Pointer, lc
from localspec.llama.vocab import Vocab
from localspec.model import ModelInfo, ModelSpec
from localspec.spec.types import Logits, Tokens

MAX_ROWS = 65  # drafts of up to 64 tokens
Listener = Callable[[NDArray[np.int64], int], None]  # the tokens of a decode, and the position of the first

# With the address as a number: it is asked for in every round, and making a typed pointer an array takes long.
_get_logits = lc._lib["llama_get_logits"]
_get_logits.argtypes, _get_logits.restype = [ctypes.c_void_p], ctypes.c_void_p

_FAILURES = {
    1: ("The context is full.", "Start a new conversation, or load the model with a larger --n-ctx."),
    2: ("The decode was aborted.", "Try again."),
    -1: ("llama.cpp refused the tokens.", "This is a bug in localspec; please report it."),
    -2: ("There was not enough memory for the computation.", "Use a smaller --n-ctx or fewer --gpu-layers."),
    -3: ("The computation failed.", "Load the model again; with fewer --gpu-layers if it happens again."),
}


class LlamaModel:
    """Owns a model and one context with one sequence. One thread at a time. Close it."""

    def __init__(self, native: Native, model: Pointer, context: Pointer, *, max_rows: int, swa_full: bool) -> None:
        self._native, self._model, self._context = native, model, context
        self._listeners: list[Listener] = []
        self.vocab = Vocab(native, model)
        self.n_vocab = self.vocab.size
        self.n_ctx: int = lc.llama_n_ctx(context)
        self.n_batch: int = lc.llama_n_batch(context)
        self.max_rows = max_rows
        self._batch = Batch(native, self.n_batch)
        self._tokens = np.empty(self.n_ctx, np.int32)
        self._readable = self._tokens.view()
        self._readable.setflags(write=False)
        self._length = 0
        self._logits_at, self._logits = 0, np.empty((0, 0), np.float32)
        self._memory = Memory(context, model, swa_full=swa_full)
        self._memory.probe(lambda: self.decode((0, 0), rows=0))
        self._length = 0
        self.info: ModelInfo  # set by load
        self.mtp_off: str | None  # why the file's own prediction layers can't draft, without its end; set by load

    @classmethod
    def load(
        cls,
        spec: ModelSpec,
        *,
        max_rows: int = MAX_ROWS,
        on_progress: Progress | None = None,
        role: str = "target",
        swa_full: bool = True,
        mtp: bool = False,
        header: gguf.Header | None = None,
    ) -> LlamaModel:
        """Raises ModelLoadError, UsageError for a setting that can't be, LoadCancelled when `on_progress` returned
        False. `swa_full` False saves memory on models with windowed attention, and makes deep rewinds dear.
        `mtp` also loads the file's prediction layers; `mtp_off` says why where that can't be. A `header` that was
        checked already saves reading it."""
        header = header or gguf.check(spec.path)
        machine = Machine(devices.list_devices(), devices.physical_cores(), devices.usable_cpus())
        choices = choose(spec, header, machine)
        if not 1 <= max_rows <= choices.n_batch:
            raise UsageError(
                f"One pass checks 1 to {choices.n_batch} rows, not {max_rows}.", "Use a shorter draft length."
            )
        native = Native()
        try:
            handle, off = open_weights(native, header, choices.gpu_layers, on_progress, mtp=mtp)
            context, attention = open_context(
                native, handle, spec.path, choices, max_rows=max_rows, swa_full=swa_full
            )
            model = cls(native, handle, context, max_rows=max_rows, swa_full=swa_full)
            model.info, model.mtp_off = _info(model, handle, header, choices, attention, role), off
        except BaseException:
            native.close()
            raise
        return model

    def close(self) -> None:
        """Give all memory back. Rows of logits that are still held become invalid."""
        self._listeners.clear()
        self._native.close()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Tell `listener` of each decode that succeeded, while its hidden states can still be read. It must not
        raise. Returns what ends the subscription."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener) if listener in self._listeners else None

    def lend(self, borrower: Native) -> tuple[Pointer, Pointer]:
        """The native model and context, for a drafter of this room; what `borrower` owns is freed before them."""
        self._native.check()
        self._native.own(borrower, Native.close)
        return self._model, self._context

    @property
    def cached(self) -> NDArray[np.int32]:
        """What the cache holds, in order: a view that later decodes and rewinds write to."""
        return self._readable[: self._length]

    def decode(self, tokens: Tokens, *, rows: int) -> Logits:
        self._native.check()
        ids = self._checked(tokens, rows)
        start, end = self._length, self._length + len(ids)
        self._memory.before_decode(start, len(ids), rows)
        self._read(ids, start, rows)
        self._tokens[start:end] = tokens
        self._length = end
        for listener in self._listeners:
            listener(np.array(ids, np.int64), start)
        return self._rows(rows)

    def rewind(self, length: int) -> None:
        """Rows of logits may be overwritten: some caches go back by reading a few tokens again."""
        self._native.check()
        if not 0 <= length <= self._length:
            raise ModelError(f"The cache holds {self._length} tokens; it can't be cut to {length}.")
        try:
            self._memory.rewind(self._length, length, self._replay)
        finally:
            self._length = self._memory.held()

    def reusable(self, length: int) -> int:
        """The longest prefix of at most `length` cached tokens that `rewind` can really reach."""
        return self._memory.reusable(self._length, min(length, self._length))

    @property
    def rollback(self) -> str:
        """What the cache can take back; see memory.py."""
        return self._memory.rollback

    @property
    def speculation_off(self) -> str | None:
        """Why drafts can't be checked on this model, as a sentence; None when they can."""
        return self._memory.speculation_off

    def _read(self, ids: Sequence[int], start: int, rows: int) -> None:
        if code := lc.llama_decode(self._context, self._batch.fill(ids, start, rows)):
            self._fail(code)
        self._memory.after_decode(len(ids))

    def _replay(self, start: int, end: int) -> None:
        """Read cached tokens once more. Nobody is told: whoever listens has seen them."""
        self._read(self._tokens[start:end].tolist(), start, 0)

    def _checked(self, tokens: Tokens, rows: int) -> list[int]:
        ids: list[int] = np.asarray(tokens, np.int64).tolist()
        n = len(ids)
        if not 1 <= n <= self.n_batch:
            raise ModelError(f"A decode takes 1 to {self.n_batch} tokens, not {n}.")
        if not 0 <= rows <= min(n, self.max_rows):
            raise ModelError(f"A decode of {n} tokens gives 0 to {min(n, self.max_rows)} rows, not {rows}.")
        if self._length + n > self.n_ctx:
            raise ModelError(*_FAILURES[1])
        if min(ids) < 0 or max(ids) >= self.n_vocab:
            raise ModelError(f"A token is outside the vocabulary of {self.n_vocab:,}.")
        return ids

    def _rows(self, rows: int) -> Logits:
        if rows == 0:
            return np.empty((0, self.n_vocab), np.float32)
        address = _get_logits(self._context)
        if not address:
            raise ModelError("llama.cpp returned no logits.", "Load the model again.")
        if address != self._logits_at:  # llama.cpp moves its rows when it needs more room for them
            block = (ctypes.c_float * (self.max_rows * self.n_vocab)).from_address(address)
            self._logits = np.ctypeslib.as_array(block).reshape(self.max_rows, self.n_vocab)
            self._logits_at = address
        return self._logits[:rows]

    def _fail(self, code: int) -> None:
        if code not in (1, -1):  # those two leave the cache alone
            self._length = self._memory.recover(self._length)
        message, hint = _FAILURES.get(code, (f"llama.cpp failed with code {code}.", "Load the model again."))
        raise ModelError(message, hint)


def _info(
    model: LlamaModel, handle: Pointer, header: gguf.Header, choices: Choices, attention: Attention, role: str
) -> ModelInfo:
    return ModelInfo(
        role=role,
        path=header.path,
        name=header.name,
        description=_description(handle),
        architecture=header.architecture,
        bytes=sum(os.path.getsize(part) for part in gguf.shards(header)),
        fingerprint=gguf.fingerprint(header),
        n_ctx=model.n_ctx,
        n_ctx_train=lc.llama_model_n_ctx_train(handle),
        n_vocab=model.n_vocab,
        n_layer=lc.llama_model_n_layer(handle),
        gpu_layers=choices.gpu_layers,
        threads=choices.threads,
        flash_attn=attention.flash == "on",
        cache_type_k=attention.k,
        cache_type_v=attention.v,
        rollback=model.rollback,
        speculation_off=model.speculation_off,
        n_batch=model.n_batch,
    )


def _description(handle: Pointer) -> str:
    buffer = ctypes.create_string_buffer(256)
    lc.llama_model_desc(handle, buffer, len(buffer))
    return buffer.value.decode(errors="replace")
