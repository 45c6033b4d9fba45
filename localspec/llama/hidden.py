"""The hidden states of a model, through functions that llama.cpp exports but does not promise.

They are C++ functions, so each is looked up by its compiled name when this module is imported, and nothing fails
when one is gone: `missing` says which drafters can't run and why. Knows no drafter.

Rows belong to the tokens of the last decode, in order. They are copies: the next decode overwrites the buffers.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localspec.errors import ModelError
from localspec.llama.native import Pointer, lc, version

States = NDArray[np.float32]

_ROWS = ctypes.POINTER(ctypes.c_float)


@dataclass(frozen=True, slots=True)
class Symbol:
    """A function of llama.cpp, with the endings that compilers give its name."""

    name: str
    itanium: str  # Linux and macOS
    msvc: str  # Windows
    arguments: tuple[type, ...]
    result: type | None = None

    @property
    def spellings(self) -> tuple[str, ...]:
        return self.name, f"_Z{len(self.name)}{self.name}{self.itanium}", f"?{self.name}@@{self.msvc}"


_CONTEXT = ctypes.c_void_p
_SET_NEXTN = Symbol(
    "llama_set_embeddings_nextn",
    "P13llama_contextbb",
    "YAXPEAUllama_context@@_N1@Z",
    (_CONTEXT, ctypes.c_bool, ctypes.c_bool),
)
_GET_NEXTN = Symbol(
    "llama_get_embeddings_nextn", "P13llama_context", "YAPEAMPEAUllama_context@@@Z", (_CONTEXT,), _ROWS
)
_GET_NEXTN_ITH = Symbol(
    "llama_get_embeddings_nextn_ith",
    "P13llama_contexti",
    "YAPEAMPEAUllama_context@@H@Z",
    (_CONTEXT, ctypes.c_int32),
    _ROWS,
)
_SET_NEXTN_LAYER = Symbol(
    "llama_set_nextn_layer_offset",
    "P13llama_contexti",
    "YAXPEAUllama_context@@H@Z",
    (_CONTEXT, ctypes.c_int32),
)
_GET_OTHER = Symbol(
    "llama_get_ctx_other", "P13llama_context", "YAPEAUllama_context@@PEAU1@@Z", (_CONTEXT,), _CONTEXT
)
_SET_LAYER = Symbol(
    "llama_set_embeddings_layer_inp",
    "P13llama_contextjb",
    "YAXPEAUllama_context@@I_N@Z",
    (_CONTEXT, ctypes.c_uint32, ctypes.c_bool),
)
_GET_LAYER = Symbol(
    "llama_get_embeddings_layer_inp",
    "P13llama_contextj",
    "YAPEAMPEAUllama_context@@I@Z",
    (_CONTEXT, ctypes.c_uint32),
    _ROWS,
)

# What each drafter needs.
FEATURES: Mapping[str, tuple[Symbol, ...]] = {
    "mtp": (_SET_NEXTN, _GET_NEXTN, _GET_NEXTN_ITH, _SET_NEXTN_LAYER, _GET_OTHER),
    "eagle3": (_SET_NEXTN, _GET_NEXTN, _SET_LAYER, _GET_LAYER),
    "dflash": (_SET_NEXTN, _GET_NEXTN, _SET_LAYER, _GET_LAYER),
}


def probe(library: Any) -> dict[str, Pointer]:
    """The functions that this library has, by plain name, ready to be called."""
    found: dict[str, Pointer] = {}
    for symbol in {s.name: s for needed in FEATURES.values() for s in needed}.values():
        for spelling in symbol.spellings:
            if (function := getattr(library, spelling, None)) is not None:
                function.argtypes, function.restype = list(symbol.arguments), symbol.result
                found[symbol.name] = function
                break
    return found


_found = probe(lc._lib)


def missing(feature: str) -> str | None:
    """Why the drafters of this name can't run on this build, as a sentence without its end; None when they can."""
    names = [symbol.name for symbol in FEATURES[feature] if symbol.name not in _found]
    if not names:
        return None
    return f"{feature} can't run: this build of llama.cpp ({version()}) does not export {', '.join(names)}"


def keep_nextn(context: Pointer, *, masked: bool) -> None:
    """From now on keep the state behind the last layer: of rows with logits only (`masked`), or of every token.
    Once, right after the context was made: llama.cpp plans its buffers anew."""
    _call(_SET_NEXTN, context, True, masked)


def keep_layer(context: Pointer, layer: int) -> None:
    """From now on keep what enters this layer. Ends the process in the next decode on a model that has no such
    output: see heads.py."""
    _call(_SET_LAYER, context, layer, True)


def nextn(context: Pointer, rows: int, width: int) -> States:
    return _copied(_call(_GET_NEXTN, context), rows, width)


def nextn_row(context: Pointer, row: int, width: int) -> States:
    return _copied(_call(_GET_NEXTN_ITH, context, row), 1, width).reshape(width)


def layer(context: Pointer, layer: int, rows: int, width: int) -> States:
    return _copied(_call(_GET_LAYER, context, layer), rows, width)


def choose_nextn_layer(context: Pointer, offset: int) -> None:
    """Which of several prediction layers the next decode of a multi-token prediction context runs."""
    _call(_SET_NEXTN_LAYER, context, offset)


def linked(context: Pointer) -> Pointer:
    """The context that this one borrows from; None if it stands alone."""
    return _call(_GET_OTHER, context)


def _call(symbol: Symbol, *arguments: object) -> Pointer:
    function = _found.get(symbol.name)
    if function is None:
        raise ModelError(
            f"This build of llama.cpp does not export {symbol.name}.",
            "Reinstall the llama-cpp-python that localspec names.",
        )
    return function(*arguments)


def _copied(pointer: Pointer, rows: int, width: int) -> States:
    if not pointer:
        raise ModelError("llama.cpp kept no hidden states of this pass.", "Use another --method.")
    return np.ctypeslib.as_array(pointer, shape=(rows, width)).copy()
