"""A head's own native model and context: rows in, logits and states out.

llama.cpp takes the width of a row from the head's graph and trusts that it was handed so much, so it is checked here.
Every row of a pass gives its logits, or none does: the graphs of heads don't pick out single rows.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelError
from localspec.llama import devices, hidden, logs
from localspec.llama.choices import FLASH, gpu_layers
from localspec.llama.heads import Head
from localspec.llama.hidden import States
from localspec.llama.load import open_model
from localspec.llama.model import LlamaModel
from localspec.llama.native import Native, Pointer, lc, version
from localspec.model import ModelSpec
from localspec.spec.types import Logits, Tokens

CHUNK = 64  # rows per pass; llama.cpp sets room aside for the logits of each, over the whole vocabulary


class HeadContext:
    """One sequence, one thread. Freed with the target at the latest."""

    def __init__(self, head: Head, target: LlamaModel, spec: ModelSpec) -> None:
        self._native, self.n_vocab = Native(), target.n_vocab
        self.end = self._rows = 0  # where the last pass ended, and how many rows it had
        try:
            self._open(head, target, spec)
        except BaseException:
            self._native.close()
            raise
        self._token = np.empty(CHUNK, np.int32)
        self._state = np.empty(CHUNK * max(self.width, self.input_width), np.float32)
        self._position = np.empty(4 * CHUNK, np.int32)
        self._wanted = np.empty(CHUNK, np.int8)
        self._ones, self._zero = np.ones(CHUNK, np.int32), ctypes.c_int32(0)
        self._batch = lc.llama_batch(
            pos=_array(self._position),
            n_seq_id=_array(self._ones),
            seq_id=(ctypes.POINTER(ctypes.c_int32) * CHUNK)(*[ctypes.pointer(self._zero)] * CHUNK),
            logits=_array(self._wanted),
        )

    def _open(self, head: Head, target: LlamaModel, spec: ModelSpec) -> None:
        _, self.target_context = target.lend(self._native)
        asked = spec.gpu_layers if spec.gpu_layers is not None or target.info.gpu_layers else 0
        layers = gpu_layers(asked, head.header.number("$.block_count"), devices.has_gpu(devices.list_devices()))
        model = open_model(self._native, spec.path, gpu_layers=layers)
        self._create(model, spec.path, self._params(target, spec, "auto" if layers else "off"))
        self.width: int = lc.llama_model_n_embd(model)
        self.input_width = len(head.layers) * head.width
        hidden.keep_nextn(self._context, masked=False)
        lc.llama_set_causal_attn(self._context, head.causal)

    def _params(self, target: LlamaModel, spec: ModelSpec, flash: str) -> Pointer:
        params = lc.llama_context_default_params()
        params.n_ctx = target.n_ctx
        params.n_batch = params.n_ubatch = CHUNK
        params.n_threads = params.n_threads_batch = spec.threads or target.info.threads
        params.flash_attn_type = FLASH[flash]
        params.ctx_other = self.target_context  # a head may borrow the target's embeddings and output
        return params

    def _create(self, model: Pointer, path: str, params: Pointer) -> None:
        place = logs.mark()
        self._context: Pointer = lc.llama_init_from_model(model, params)
        if not self._context:
            raise logs.failure(path, place, version())
        self._native.own(self._context, lc.llama_free)
        self._memory: Pointer = lc.llama_get_memory(self._context)

    def close(self) -> None:
        self._native.close()

    def encode(self, states: States, start: int) -> States:
        """What the head's encoder makes of the target's states; it keeps nothing."""
        self._run(lc.llama_encode, start, None, states, wanted=True)
        return self.states()

    def decode(self, start: int, tokens: Tokens | None, states: States | None, *, wanted: bool) -> None:
        """Append rows of tokens, of states, or of both; `wanted` gives the logits of each."""
        self._run(lc.llama_decode, start, tokens, states, wanted=wanted)

    def logits(self) -> Logits:
        """Of each row of the last decode; the next one overwrites them."""
        self._native.check()
        pointer = lc.llama_get_logits(self._context)
        if not pointer:
            raise ModelError("The head gave no logits.", "Use another --method.")
        return np.ctypeslib.as_array(pointer, shape=(self._rows, self.n_vocab))

    def states(self) -> States:
        """Of each row of the last decode, or what the encoder made of it."""
        self._native.check()
        return hidden.nextn(self._context, self._rows, self.width)

    def cut(self, length: int) -> None:
        """Forget every position from `length` on."""
        self._native.check()
        removed = lc.llama_memory_seq_rm(self._memory, 0, length, -1)
        if not removed or lc.llama_memory_seq_pos_max(self._memory, 0) >= length:
            raise ModelError("The head's cache could not be cut.", "Use another --method.")

    def clear(self) -> None:
        if not self._native.closed:
            lc.llama_memory_clear(self._memory, False)

    def _run(self, run: Pointer, start: int, tokens: Tokens | None, states: States | None, *, wanted: bool) -> None:
        self._native.check()
        batch, position = self._batch, self._position
        batch.n_tokens = n = _count(tokens, states)
        batch.token = batch.embd = None
        if tokens is not None:
            if min(tokens) < 0 or max(tokens) >= self.n_vocab:  # beside states llama.cpp does not look at them
                raise ModelError(f"A token is outside the vocabulary of {self.n_vocab:,}.")
            batch.token = _copied(self._token, tokens)
        if states is not None:
            if states.shape != (n, self.input_width if tokens is None else self.width):
                raise ModelError(f"The head can't read states of shape {states.shape}.")
            batch.embd = _copied(self._state, states.reshape(-1))
        # Three sections and a zero: what rotations in several dimensions want of text. Others read the first only.
        position[:n] = position[n : 2 * n] = position[2 * n : 3 * n] = np.arange(start, start + n)
        position[3 * n : 4 * n] = 0
        self._wanted[:n] = wanted
        if code := run(self._context, batch):
            raise ModelError(f"The head failed with code {code}.", "Use another --method.")
        self._rows, self.end = n, start + n


def _count(tokens: Tokens | None, states: States | None) -> int:
    n = max(0 if tokens is None else len(tokens), 0 if states is None else len(states))
    if not 1 <= n <= CHUNK or (tokens is not None and states is not None and len(tokens) != len(states)):
        raise ModelError(f"A head reads 1 to {CHUNK} rows at once.")
    return n


def _copied(buffer: NDArray[Any], values: Tokens | States) -> Pointer:
    """`values` in a buffer that lives as long as the batch that points to it."""
    buffer[: len(values)] = values
    return _array(buffer)


def _array(buffer: NDArray[Any]) -> Pointer:
    return np.ctypeslib.as_ctypes(buffer)
