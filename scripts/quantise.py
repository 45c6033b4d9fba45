#!/usr/bin/env python3
"""A quantised copy of a GGUF file, by llama.cpp itself: a draft that fits its target, or another size to measure.

Usage: python scripts/quantise.py SOURCE TARGET TYPE      (TYPE: F16, Q8_0, Q4_0, Q4_1, Q2_K, ...)
"""

from __future__ import annotations

import os
import sys
from ctypes import byref
from pathlib import Path

from localspec.llama.native import lc

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q2_K": 10, "Q4_K_M": 15}


def quantise(source: Path, target: Path, kind: str) -> Path:
    """Write `target` unless it is there already; complete or not at all."""
    if target.exists():
        return target
    params = lc.llama_model_quantize_default_params()
    params.ftype = TYPES[kind]
    params.allow_requantize = True
    part = target.with_suffix(".part")
    if lc.llama_model_quantize(os.fsencode(source), os.fsencode(part), byref(params)) != 0:
        part.unlink(missing_ok=True)
        raise SystemExit(f"llama.cpp could not quantise {source} to {kind}")
    return part.replace(target)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in TYPES:
        raise SystemExit(__doc__)
    print(quantise(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
