"""Flags that several commands share, as dataclasses. Imports nothing heavy.

A command takes `model: ModelFlags` and `spread` turns its fields into options, so that a flag is written once and
every command that takes the group has it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from localspec.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from localspec.model import ModelSpec
    from localspec.spec.settings import Sampling


def _flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


@dataclass(frozen=True, slots=True)
class ModelFlags:
    pair: Annotated[str | None, _flag("--pair", "A pair from the catalogue (default: demo).")] = None
    target: Annotated[str | None, _flag("--target", "A GGUF file, instead of a pair.")] = None
    n_ctx: Annotated[int | None, _flag("--n-ctx", "Context size in tokens.")] = None
    gpu_layers: Annotated[int | None, _flag("--gpu-layers", "Layers on the GPU; -1: all.")] = None
    threads: Annotated[int | None, _flag("--threads", "CPU threads (default: physical cores).")] = None
    flash_attn: Annotated[str, _flag("--flash-attn", "auto, on or off.")] = "auto"
    cache_type_k: Annotated[str | None, _flag("--cache-type-k", "Type of the K cache: f16, q8_0, ...")] = None
    cache_type_v: Annotated[str | None, _flag("--cache-type-v", "Type of the V cache: f16, q8_0, ...")] = None

    def spec(self) -> ModelSpec:
        """The file to load and what was asked of it; the rest is the engine's choice."""
        from localspec import catalog
        from localspec.model import ModelSpec

        if self.pair and self.target:
            raise UsageError("--pair and --target are two ways to name one model.", "Give one of them.")
        one_of("--flash-attn", self.flash_attn, ("auto", "on", "off"))
        at_least("--n-ctx", self.n_ctx, 1)
        at_least("--threads", self.threads, 1)
        at_least("--gpu-layers", self.gpu_layers, -1)
        path = self.target or catalog.resolve(catalog.find(self.pair or catalog.DEFAULT)).target
        given = {name: value for name, value in asdict(self).items() if name not in ("pair", "target")}
        return ModelSpec(str(path), **given)


@dataclass(frozen=True, slots=True)
class SpeculationFlags:
    method: Annotated[str, _flag("--method", "How drafts are made: off or lookup (default).")] = "lookup"
    draft_tokens: Annotated[int | None, _flag("--draft-tokens", "Tokens to draft per round (default: 8).")] = None
    verifier: Annotated[str, _flag("--verifier", "block (default) or token; both are exact.")] = "block"

    def settings(self) -> dict[str, Any]:
        """Fields of `Generate`."""
        from localspec.engine.messages import DEFAULT_DRAFT_TOKENS
        from localspec.spec.drafters import canonical
        from localspec.spec.verify import VERIFIERS

        at_least("--draft-tokens", self.draft_tokens, 0)
        if self.verifier not in VERIFIERS:
            raise UnknownName("verifier", self.verifier, VERIFIERS)
        k = DEFAULT_DRAFT_TOKENS if self.draft_tokens is None else self.draft_tokens
        return {"method": canonical(self.method), "draft_tokens": k, "verifier": self.verifier}


@dataclass(frozen=True, slots=True)
class SamplingFlags:
    """Names and meanings of spec/settings.py; None leaves the default."""

    temperature: Annotated[float | None, _flag("--temperature", "0: always the most likely token.")] = None
    top_k: Annotated[int | None, _flag("--top-k", "Keep the k most likely tokens; 0: off.")] = None
    top_p: Annotated[float | None, _flag("--top-p", "Keep the most likely tokens up to mass p; 1: off.")] = None
    min_p: Annotated[float | None, _flag("--min-p", "Drop tokens less likely than p times the best; 0: off.")] = (
        None
    )
    repeat_penalty: Annotated[float | None, _flag("--repeat-penalty", "Weaken tokens seen before; 1: off.")] = None
    presence_penalty: Annotated[float | None, _flag("--presence-penalty", "Subtract once if seen; 0: off.")] = None
    frequency_penalty: Annotated[float | None, _flag("--frequency-penalty", "Subtract per time seen; 0: off.")] = (
        None
    )
    penalty_last_n: Annotated[int | None, _flag("--penalty-last-n", "Tokens looked at; -1: the context.")] = None
    seed: Annotated[int | None, _flag("--seed", "Seed of the answer (default: random, and shown).")] = None

    def sampling(self) -> Sampling:
        from localspec.spec.settings import Sampling

        return Sampling(**{name: value for name, value in asdict(self).items() if value is not None})


@dataclass(frozen=True, slots=True)
class AnswerFlags:
    system: Annotated[str | None, _flag("--system", "The system prompt.")] = None
    max_tokens: Annotated[int | None, _flag("--max-tokens", "End after N tokens.")] = None
    stop: Annotated[list[str] | None, _flag("--stop", "End before this text; may be repeated.")] = None

    def settings(self) -> dict[str, Any]:
        """Fields of `Generate`, but for the system prompt."""
        at_least("--max-tokens", self.max_tokens, 1)
        if self.stop and not all(self.stop):
            raise UsageError("--stop is empty.", "An empty text stands everywhere: leave it out.")
        return {"max_tokens": self.max_tokens, "stop": tuple(self.stop or ())}


def at_least(flag: str, value: int | None, least: int) -> None:
    if value is not None and value < least:
        raise UsageError(f"{flag} is {value}.", f"It must be at least {least}.")


def one_of(flag: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{flag} is {value!r}.", f"It must be one of: {', '.join(known)}.")


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` one option for each field of its dataclass parameters."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    options = {f.name: group for group in groups.values() for f in fields(group)}

    @functools.wraps(command)
    def spreading(**given: Any) -> None:
        built = {
            name: group(**{f.name: given.pop(f.name) for f in fields(group)})  # type: ignore[operator]
            for name, group in groups.items()
        }
        command(**given, **built)

    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=parameter.KEYWORD_ONLY))
    for name, group in options.items():
        default = next(f.default for f in fields(group) if f.name == name)
        annotation = get_type_hints(group, include_extras=True)[name]
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    spreading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spreading.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return spreading
