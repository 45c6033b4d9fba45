"""What the engine chooses where the user left a setting open, and which settings it refuses. Pure decisions over
the header of the file, the list of devices and the number of cores.

Why a quantised cache with flash attention on a processor: it is the fastest choice there, and the logits of a
token then don't depend on how many tokens are decoded with it (docs/architecture.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.errors import UsageError
from localspec.fit.footprint import BLOCK, DEFAULT_CONTEXT, head_sizes, is_packable
from localspec.fit.plan import default_cache_type
from localspec.gguf import Header
from localspec.llama.devices import Device, has_gpu
from localspec.model import ModelSpec

FLASH = {"off": 0, "on": 1, "auto": -1}  # llama.cpp's numbers
CACHE_TYPES = {
    **{"f32": 0, "f16": 1, "bf16": 30, "q8_0": 8, "q5_1": 7, "q5_0": 6, "q4_1": 3, "q4_0": 2},
    "iq4_nl": 20,
}
N_BATCH = 512  # tokens in one pass; also how long a stop can take to be heard while a prompt is read
LEAST_BATCH = 65  # a pass that checks a draft must fit into one
PLAIN = frozenset({"f32", "f16", "bf16"})


@dataclass(frozen=True, slots=True)
class Attention:
    flash: str  # on | off | auto
    k: str
    v: str


@dataclass(frozen=True, slots=True)
class Choices:
    n_ctx: int
    gpu_layers: int  # as it will be, never -1
    threads: int
    attention: Attention
    n_batch: int = N_BATCH


@dataclass(frozen=True, slots=True)
class Machine:
    devices: Sequence[Device]
    cores: int  # physical, usable by this process
    cpus: int  # logical, usable by this process


def choose(spec: ModelSpec, header: Header, machine: Machine) -> Choices:
    layers = gpu_layers(spec.gpu_layers, header.number("$.block_count"), has_gpu(machine.devices))
    return Choices(
        n_ctx=context(spec.n_ctx, header.number("$.context_length")),
        gpu_layers=layers,
        threads=threads(spec.threads, machine.cores, machine.cpus),
        attention=attention(spec, header, on_gpu=layers > 0),
        n_batch=batch(spec.n_batch),
    )


def context(asked: int | None, trained: int) -> int:
    if asked is None:
        return min(trained, DEFAULT_CONTEXT) if trained else DEFAULT_CONTEXT
    if asked < 1:
        raise UsageError(f"--n-ctx is {asked}.", "It must be at least 1, or left out.")
    if trained and asked > trained:
        raise UsageError(
            f"--n-ctx is {asked:,}, but this model was trained for {trained:,} tokens.",
            f"Use at most {trained}.",
        )
    return asked


def gpu_layers(asked: int | None, layers: int, gpu: bool) -> int:
    """Everything on the GPU if there is one; the output counts as a layer. Negative means all."""
    if asked is None:
        return layers + 1 if gpu else 0
    if asked != 0 and not gpu:
        raise UsageError(
            f"--gpu-layers is {asked}, but llama.cpp sees no GPU.",
            "Leave it out, or install a build for your GPU: localspec doctor names the command.",
        )
    return layers + 1 if asked < 0 else min(asked, layers + 1)


def threads(asked: int | None, cores: int, cpus: int) -> int:
    if asked is None:
        return cores
    if not 1 <= asked <= max(cores, cpus):
        raise UsageError(
            f"--threads is {asked}, but this process may use {cpus} processors ({cores} cores).",
            f"Leave it out, or use 1 to {max(cores, cpus)}; more than {cores} is rarely faster.",
        )
    return asked


def batch(asked: int | None) -> int:
    if asked is not None and asked < LEAST_BATCH:
        raise UsageError(f"--n-batch is {asked}.", f"It must be at least {LEAST_BATCH}, or left out.")
    return asked or N_BATCH


def attention(spec: ModelSpec, header: Header, *, on_gpu: bool) -> Attention:
    flash, k, v = _asked(spec)
    heads = head_sizes(header)
    never = header.architecture == "grok"  # llama.cpp forces it off there
    if flash == "auto" and never:
        flash = "off"
    if k is None or v is None:
        k = v = k or v or default_cache_type(flash, packable=is_packable(header), on_gpu=on_gpu)
    if flash == "auto" and not on_gpu:
        # A processor is fast with flash attention on a quantised or bf16 cache, and slow on others.
        flash = "off" if "f16" in (k, v) or "f32" in (k, v) else "on"
    _refuse(flash, k, v, heads, never=never)
    return Attention(flash, k, v)


def usual(*, on_gpu: bool) -> Attention:
    """What `attention` comes to for most models: those with heads of a multiple of 32."""
    kind = default_cache_type("auto", packable=True, on_gpu=on_gpu)
    return Attention("auto" if on_gpu else "on", kind, kind)


def _asked(spec: ModelSpec) -> tuple[str, str | None, str | None]:
    flash = spec.flash_attn.lower()
    if flash not in FLASH:
        raise UsageError(f"--flash-attn is {spec.flash_attn!r}.", "It must be auto, on or off.")
    types = []
    for flag, asked in (("--cache-type-k", spec.cache_type_k), ("--cache-type-v", spec.cache_type_v)):
        if asked is not None and asked.lower() not in CACHE_TYPES:
            raise UsageError(f"{flag} is {asked!r}.", f"It must be one of {', '.join(CACHE_TYPES)}.")
        types.append(asked and asked.lower())
    return flash, types[0], types[1]


def _refuse(flash: str, k: str, v: str, heads: frozenset[int], *, never: bool) -> None:
    """The combinations that llama.cpp would answer with a bare failure."""
    if never and flash == "on":
        raise UsageError("This architecture can't use flash attention.", "Leave --flash-attn out.")
    if flash == "off" and v not in PLAIN:
        raise UsageError(
            f"--cache-type-v {v} needs flash attention, which is off.",
            "Use --flash-attn on, or --cache-type-v f16.",
        )
    bad = sorted(size for size in heads if size % BLOCK)
    for flag, kind in (("--cache-type-k", k), ("--cache-type-v", v)):
        if flash != "off" and kind not in PLAIN and bad:
            raise UsageError(
                f"{flag} {kind} needs heads of a multiple of {BLOCK}, but this model has heads of {bad[0]}.",
                f"Use {flag} f16.",
            )
