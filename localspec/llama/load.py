"""From a checked file to native handles. Every failure is a ModelLoadError with llama.cpp's own reason."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from localspec import gguf
from localspec.errors import LoadCancelled, ModelLoadError
from localspec.fit.footprint import SNAPSHOTS
from localspec.gguf import Header
from localspec.llama import logs, prediction, workers
from localspec.llama.choices import CACHE_TYPES, FLASH, Attention, Choices
from localspec.llama.native import Native, Pointer, lc, version
from localspec.llama.vocab import Vocab

Progress = Callable[[float], bool]  # gets 0..1; False cancels


def load_vocab(path: str) -> Vocab:
    """The vocabulary without the weights, for comparing two models. Close it."""
    gguf.check(path)
    native = Native()
    return Vocab(native, open_model(native, path, gpu_layers=0, vocab_only=True))


def open_model(
    native: Native,
    path: str,
    *,
    gpu_layers: int,
    vocab_only: bool = False,
    mtp: bool = False,
    claims: Mapping[str, int] | None = None,
    on_progress: Progress | None = None,
) -> Pointer:
    """`mtp` loads the prediction layers as well; they must be there, see prediction.py. `claims` stand in the place
    of what the header says."""
    place, raised = logs.mark(), list[BaseException]()
    params = lc.llama_model_default_params()
    params.n_gpu_layers = gpu_layers
    params.vocab_only = vocab_only
    params.load_mtp = mtp
    if claims:
        params.kv_overrides = _overrides(claims)
    # Without a callback llama.cpp reports progress as dots in its log.
    callback = lc.llama_progress_callback(_careful(on_progress or _go_on, raised))
    params.progress_callback = callback
    params.devices = workers.chosen()
    model = lc.llama_model_load_from_file(os.fsencode(path), params)
    if raised:
        if model:
            lc.llama_model_free(model)
        raise raised[0]
    if not model:
        raise logs.failure(path, place, version())
    return native.own(model, lc.llama_model_free)


def open_weights(
    native: Native, header: Header, gpu_layers: int, on_progress: Progress | None, *, mtp: bool
) -> tuple[Pointer, str | None]:
    """A model, if possible with its prediction layers; and why not, if so."""
    path = header.path
    off = prediction.trouble(header) if mtp else "its prediction layers were not loaded"
    if off is None:
        try:
            return open_model(native, path, gpu_layers=gpu_layers, on_progress=on_progress, mtp=True), None
        except ModelLoadError as error:
            if error.reason == logs.NO_ROOM and gpu_layers > 0:
                raise  # fewer layers on the GPU cost less than drafting without the prediction layers
            off = f"its prediction layers could not be loaded: {error.reason}"
    # Most architectures insist on layers that a header claims, although nothing runs them.
    claims = prediction.without(header) if prediction.are_missing(header) else None
    return open_model(native, path, gpu_layers=gpu_layers, on_progress=on_progress, claims=claims), off


def open_context(
    native: Native, model: Pointer, path: str, choices: Choices, *, max_rows: int, swa_full: bool
) -> tuple[Pointer, Attention]:
    """The context, and the attention settings as they turned out."""
    if not lc.llama_model_has_decoder(model) or lc.llama_model_has_encoder(model):
        raise ModelLoadError(path, "it is an encoder model; it can't chat", "Choose a chat model.")
    if lc.llama_model_is_diffusion(model):
        raise ModelLoadError(
            path, "it is a diffusion model; it doesn't write from left to right", "Choose another."
        )
    place, attention = logs.mark(), choices.attention
    params = lc.llama_context_default_params()
    params.n_ctx = choices.n_ctx
    params.n_batch = params.n_ubatch = choices.n_batch
    params.n_outputs_max = max_rows
    params.n_threads = params.n_threads_batch = choices.threads
    params.flash_attn_type = FLASH[attention.flash]
    params.type_k, params.type_v = CACHE_TYPES[attention.k], CACHE_TYPES[attention.v]
    params.swa_full = swa_full
    if lc.llama_model_is_recurrent(model) or lc.llama_model_is_hybrid(model):
        params.n_rs_seq = SNAPSHOTS
    context = lc.llama_init_from_model(model, params)
    if not context:
        raise logs.failure(path, place, version())
    native.own(context, lc.llama_free)
    return context, _resolved(attention, logs.since(place))


def _overrides(claims: Mapping[str, int]) -> Pointer:
    entries = (lc.llama_model_kv_override * (len(claims) + 1))()  # the last one is empty: it marks the end
    for entry, (key, value) in zip(entries, claims.items(), strict=False):
        entry.tag, entry.key, entry.value.val_i64 = lc.LLAMA_KV_OVERRIDE_TYPE_INT, key.encode(), value
    return entries


def _resolved(attention: Attention, lines: tuple[logs.Line, ...]) -> Attention:
    """llama.cpp tells only its log what "auto" came to."""
    if attention.flash != "auto":
        return attention
    off = any("Flash Attention not supported" in line.text for line in lines)
    return Attention("off" if off else "on", attention.k, attention.v)


def _go_on(_fraction: float) -> bool:
    return True


def _careful(on_progress: Progress, raised: list[BaseException]) -> Callable[[float, object], bool]:
    """An exception can't cross native code (Ctrl+C arrives here too): keep it, cancel, raise it afterwards."""

    def report(fraction: float, _user: object) -> bool:
        try:
            if not on_progress(fraction):
                raise LoadCancelled
            return True
        except BaseException as error:
            raised.append(error)
            return False

    return report
