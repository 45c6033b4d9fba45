"""The memory plan: how many layers of target and draft go to the GPU, and whether the rest fits into host memory.

The target is placed first, then the draft in what is left, if the target is there as a whole. Pure arithmetic over
footprints and what is free: knows neither llama.cpp nor how the free memory was found out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeAlias

from localspec.fit.footprint import DEFAULT_CONTEXT, Footprint
from localspec.model import ModelSpec

# What can't be counted: the driver, its kernels, room to move. Rules of thumb.
GPU_RESERVE = 600_000_000
HOST_RESERVE = 200_000_000
LEAST_CONTEXT = 512  # less is no conversation

Verdict: TypeAlias = Literal["gpu", "partly", "cpu", "too large"]


class Gpu(NamedTuple):
    """`shared`: its memory is the host's, as on Apple chips and integrated GPUs."""

    name: str
    free: int
    total: int
    shared: bool = False


@dataclass(frozen=True, slots=True)
class Capacity:
    """Free memory. `host` is 0 where the system doesn't say; `source` tells people how the GPUs were found."""

    gpus: tuple[Gpu, ...] = ()
    host: int = 0
    source: str = ""

    @property
    def shared(self) -> bool:
        return bool(self.gpus) and all(gpu.shared for gpu in self.gpus)

    @property
    def free(self) -> int:
        """Bytes of all GPUs together."""
        return sum(gpu.free for gpu in self.gpus)


class Share(NamedTuple):
    """Where one model goes: `layers` of `of` on the GPU (the output counts as one), and bytes on either side."""

    layers: int
    of: int
    device: int
    host: int
    cache: str


NOTHING = Share(0, 0, 0, 0, "")


@dataclass(frozen=True, slots=True)
class Plan:
    """`reason` is a sentence without its end."""

    target_layers: int
    draft_layers: int
    n_ctx: int
    device_bytes: int
    host_bytes: int
    verdict: Verdict
    reason: str
    target_of: int = 0  # layers that there are, the output included
    draft_of: int = 0
    cache: str = ""  # types of the target's cache


def plan(
    capacity: Capacity,
    target: Footprint,
    spec: ModelSpec,
    draft: Footprint | None = None,
    draft_spec: ModelSpec | None = None,
) -> Plan:
    """What was asked for in a spec is kept; what was left open is decided."""
    n_ctx = spec.n_ctx or min(target.trained or DEFAULT_CONTEXT, DEFAULT_CONTEXT)
    room = _room(capacity, target)
    first = _placed(target, spec, n_ctx, room, bool(capacity.gpus))
    second = NOTHING
    if draft is not None:
        own, left = draft_spec or ModelSpec(""), room - first.device if first.layers == first.of else 0
        second = _placed(draft, own, own.n_ctx or n_ctx, left, bool(capacity.gpus))
    device = first.device + second.device
    host = first.host + second.host + HOST_RESERVE
    verdict = _verdict(capacity, first, second, device, host)
    found = Plan(first.layers, second.layers, n_ctx, device, host, verdict, "", first.of, second.of, first.cache)
    exact = target.exact and target.has_cache
    return replace(found, reason=_reason(capacity, found, exact=exact))


def smaller(layers: int) -> Iterator[int]:
    """The numbers of layers to try after `layers` turned out to be too many."""
    planned = layers
    for quarters in (3, 2, 1, 0):
        if (fewer := planned * quarters // 4) < layers:
            layers = fewer
            yield fewer


def remedy(capacity: Capacity, target: Footprint, spec: ModelSpec, *rest: Footprint | ModelSpec | None) -> str:
    """What would make a plan fit that is too large, as a sentence; empty if nothing small would."""
    now = plan(capacity, target, spec, *rest)  # type: ignore[arg-type]
    packed = replace(spec, cache_type_k="q8_0", cache_type_v="q8_0", flash_attn="auto")
    flags = " --cache-type-k q8_0 --cache-type-v q8_0"
    can_pack = target.packable and "q8_0" not in now.cache
    for changed, said in ((spec, ""), *([(packed, flags)] if can_pack else [])):
        n_ctx = now.n_ctx if said else now.n_ctx // 2
        while n_ctx >= LEAST_CONTEXT:
            found = plan(capacity, target, replace(changed, n_ctx=n_ctx), *rest)  # type: ignore[arg-type]
            if found.verdict != "too large":
                shorter = f" --n-ctx {n_ctx}" if n_ctx < now.n_ctx else ""
                return f"It fits with{shorter}{said}."
            n_ctx //= 2
    return ""


def default_cache_type(flash: str, *, packable: bool, on_gpu: bool) -> str:
    """Where nobody says: quantised on a processor, because it is fastest there (docs/architecture.md)."""
    return "q8_0" if packable and not on_gpu and flash != "off" else "f16"


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.0f} MB"


def _room(capacity: Capacity, target: Footprint) -> int:
    """What layers may take of all GPUs. llama.cpp gives whole layers to each of several, so some room stays empty."""
    free = sum(max(0, gpu.free - GPU_RESERVE) for gpu in capacity.gpus)
    empty = max((layer.weights for layer in target.layers), default=0) * max(0, len(capacity.gpus) - 1)
    if capacity.shared and capacity.host:
        free = min(free, capacity.host - HOST_RESERVE)
    return max(0, free - empty)


def _placed(model: Footprint, spec: ModelSpec, n_ctx: int, room: int, has_gpu: bool) -> Share:
    """As many layers as there is room for, from the last one backwards, as llama.cpp takes them."""
    every = len(model.layers) + 1
    if spec.gpu_layers is not None:
        return _share(model, spec, n_ctx, every if spec.gpu_layers < 0 else min(spec.gpu_layers, every))
    for layers in range(every if has_gpu else 0, 0, -1):
        found = _share(model, spec, n_ctx, layers)
        if found.device <= room:
            return found
    return _share(model, spec, n_ctx, 0)


def _share(model: Footprint, spec: ModelSpec, n_ctx: int, layers: int) -> Share:
    on_gpu, count = layers > 0, len(model.layers)
    usual = default_cache_type(spec.flash_attn, packable=model.packable, on_gpu=on_gpu)
    k = spec.cache_type_k or spec.cache_type_v or usual
    v = spec.cache_type_v or spec.cache_type_k or usual
    flash = spec.flash_attn == "on" or (spec.flash_attn == "auto" and (on_gpu or not {"f16", "f32"} & {k, v}))
    sizes = [model.layer(i, n_ctx, k, v) for i in range(count)]
    first = count - max(0, layers - 1)  # of the layers on the GPU
    buffers = model.buffers(n_ctx, flash=flash)
    device = sum(sizes[first:]) + model.output + buffers if on_gpu else 0
    tied = 0 if on_gpu else max(0, model.output - model.embedding)
    host = sum(sizes[:first]) + model.embedding + tied + (buffers if first > 0 else 0)
    return Share(layers, count + 1, device, host, f"{k}/{v}")


def _verdict(capacity: Capacity, first: Share, second: Share, device: int, host: int) -> Verdict:
    if capacity.host and host + (device if capacity.shared else 0) > capacity.host:
        return "too large"
    layers = first.layers + second.layers
    if layers == 0:
        return "cpu"
    return "gpu" if layers == first.of + second.of else "partly"


def _reason(capacity: Capacity, found: Plan, *, exact: bool) -> str:
    about = "" if exact else "about "
    if found.verdict == "too large":
        needed = found.host_bytes + (found.device_bytes if capacity.shared else 0)
        return f"it needs {about}{size(needed)} of host memory, and {size(capacity.host)} are free"
    if found.verdict == "cpu":
        free = f" of {size(capacity.host)} free" if capacity.host else ""
        return f"it takes {about}{size(found.host_bytes)}{free} in host memory"
    on_gpu = f"{about}{size(found.device_bytes)} of {size(capacity.free)} free on {_names(capacity)}"
    if found.verdict == "gpu":
        return f"it takes {on_gpu}"
    parts = [_part("target", found.target_layers, found.target_of, exact=exact)]
    if found.draft_of:
        parts.append(_part("draft", found.draft_layers, found.draft_of, exact=exact))
    return f"on the GPU: {' and '.join(parts)}, {on_gpu}; the rest takes {size(found.host_bytes)} of host memory"


def _part(role: str, layers: int, of: int, *, exact: bool) -> str:
    if layers in (0, of):
        return f"{'all' if layers else 'nothing'} of the {role}"
    return f"{layers} of {of} layers of the {role}" if exact else f"about {layers / of:.0%} of the {role}"


def _names(capacity: Capacity) -> str:
    return " and ".join(gpu.name for gpu in capacity.gpus)
