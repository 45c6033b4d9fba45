"""Where the layers go: the plan before a load, and the next smaller one when there was less memory than it seemed.

Whoever sets --gpu-layers has decided, and nothing is second-guessed. The arithmetic is in fit/plan.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localspec import gguf
from localspec.engine.messages import Load
from localspec.errors import ModelLoadError
from localspec.fit import capacity as machine
from localspec.fit.footprint import Footprint, of_header
from localspec.fit.plan import Capacity, Gpu, Plan, plan, remedy, smaller
from localspec.gguf import Header
from localspec.llama import devices, logs
from localspec.llama.choices import Machine, choose
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec

_DECIDE = "With --gpu-layers you decide, and nothing is checked."
_SMALLER = "Choose a smaller model: `localspec models` shows what fits."


@dataclass(frozen=True, slots=True)
class Placing:
    """A plan with all that it was made from. `command` is what is left to load when the target is there."""

    command: Load
    header: Header
    capacity: Capacity
    footprint: Footprint
    draft: Footprint | None
    plan: Plan
    notes: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        return self.plan.verdict == "too large" and self.command.target.gpu_layers is None

    @property
    def remedy(self) -> str:
        """What would make it fit, for a plan that is too large."""
        found = remedy(self.capacity, self.footprint, self.command.target, self.draft, self.command.draft)
        return f"{found or _SMALLER} {_DECIDE}"


def place(command: Load) -> Placing:
    """Loads nothing. Raises ModelLoadError for a file that can't be used."""
    header = gguf.check(command.target.path)
    here, footprint = capacity(), of_header(header)
    draft = _footprint(command.draft)
    found = plan(here, footprint, command.target, draft, command.draft)
    if found.verdict != "too large" or draft is None:
        return Placing(command, header, here, footprint, draft, found)
    alone = plan(here, footprint, command.target)
    if alone.verdict == "too large":
        return Placing(command, header, here, footprint, draft, found)
    note = f"The draft is left out: with it, {found.reason}."
    return Placing(replace(command, draft=None), header, here, footprint, None, alone, (note,))


def load_target(command: Load, on_progress: Callable[[float], bool]) -> tuple[LlamaModel, Load, tuple[str, ...]]:
    """The target, the command with the draft's layers as planned, and what the user should know."""
    placing = place(command)
    command, found, spec = placing.command, placing.plan, placing.command.target
    if placing.refused:
        raise _too_large(placing)

    def load(spec: ModelSpec) -> LlamaModel:
        return LlamaModel.load(spec, on_progress=on_progress, mtp=True, header=placing.header)

    if spec.gpu_layers is not None or not placing.capacity.gpus:
        return load(spec), command, placing.notes
    model, layers = load_lower(load, spec, (found.target_layers, *smaller(found.target_layers)))
    whole = layers == found.target_layers
    if command.draft is not None and command.draft.gpu_layers is None:
        command = replace(command, draft=replace(command.draft, gpu_layers=found.draft_layers if whole else 0))
    return model, command, (*placing.notes, *_told(found, layers))


def load_lower(
    load: Callable[[ModelSpec], LlamaModel], spec: ModelSpec, tries: Sequence[int]
) -> tuple[LlamaModel, int]:
    """Load with the first number of layers on the GPU that there is memory for."""
    for layers in tries[:-1]:
        try:
            return load(replace(spec, gpu_layers=layers)), layers
        except ModelLoadError as error:
            if error.reason != logs.NO_ROOM:
                raise
    return load(replace(spec, gpu_layers=tries[-1])), tries[-1]


def capacity() -> Capacity:
    """What llama.cpp sees now; kept for lists that must not load it."""
    found = devices.list_devices()
    kind = "gpu" if any(device.kind == "gpu" for device in found) else "igpu"  # llama.cpp leaves the lesser alone
    gpus = tuple(
        Gpu(device.name, device.free, device.total, kind == "igpu" or device.backend == "MTL")
        for device in found
        if device.kind == kind
    )
    machine.remember(tuple(gpu for gpu in gpus if not gpu.name.startswith("RPC")))  # theirs is not this machine's
    return Capacity(gpus, machine.host_memory(), "as llama.cpp sees them")


def _footprint(spec: ModelSpec | None) -> Footprint | None:
    """A draft that can't be read takes nothing; why, is said when it should be loaded."""
    if spec is None:
        return None
    try:
        return of_header(gguf.read(spec.path))
    except ModelLoadError:
        return None


def _too_large(placing: Placing) -> ModelLoadError:
    """A setting that can't be is said first: there is no use in making it fit."""
    spec = placing.command.target
    choose(spec, placing.header, Machine(devices.list_devices(), devices.physical_cores(), devices.usable_cpus()))
    return ModelLoadError(spec.path, placing.plan.reason, placing.remedy)


def _told(found: Plan, layers: int) -> tuple[str, ...]:
    if layers < found.target_layers:
        return (
            f"There was less GPU memory than it seemed: {layers} of {found.target_of} layers are on the GPU instead of "
            f"{found.target_layers}, the rest in host memory.",
        )
    return (f"Not everything fits on the GPU: {found.reason}.",) if found.verdict in ("partly", "cpu") else ()
