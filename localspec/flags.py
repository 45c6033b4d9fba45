"""Flags that several commands share, as dataclasses. Imports nothing heavy.

A command takes `model: ModelFlags` and `spread` turns its fields into options, so that a flag is written once and
every command that takes the group has it. What a flag means, its default and its range: config.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from localspec.methods import METHODS


def _flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


Workers = Annotated[
    str | None, _flag("--rpc", "Machines that take layers of the target: HOST:PORT[,HOST:PORT...].")
]
Trust = Annotated[bool, _flag("--i-trust-this-network", "Needed for workers that are not on this machine.")]


@dataclass(frozen=True, slots=True)
class ModelFlags:
    pair: Annotated[str | None, _flag("--pair", "A pair from the catalogue (default: demo).")] = None
    target: Annotated[str | None, _flag("--target", "A GGUF file, instead of a pair.")] = None
    draft: Annotated[str | None, _flag("--draft", "A smaller model, or a head, that drafts for the target.")] = None
    draft_n_ctx: Annotated[int | None, _flag("--draft-n-ctx", "Context of the draft (default: the target's).")] = (
        None
    )
    draft_gpu_layers: Annotated[int | None, _flag("--draft-gpu-layers", "Layers of the draft on the GPU.")] = None
    draft_threads: Annotated[int | None, _flag("--draft-threads", "CPU threads of the draft.")] = None
    n_ctx: Annotated[int | None, _flag("--n-ctx", "Context size in tokens.")] = None
    gpu_layers: Annotated[int | None, _flag("--gpu-layers", "Layers on the GPU; -1: all.")] = None
    threads: Annotated[int | None, _flag("--threads", "CPU threads (default: physical cores).")] = None
    flash_attn: Annotated[str | None, _flag("--flash-attn", "auto (default), on or off.")] = None
    cache_type_k: Annotated[str | None, _flag("--cache-type-k", "Type of the K cache: f16, q8_0, ...")] = None
    cache_type_v: Annotated[str | None, _flag("--cache-type-v", "Type of the V cache: f16, q8_0, ...")] = None
    n_batch: Annotated[int | None, _flag("--n-batch", "Prompt tokens read in one pass (default: 512).")] = None
    rpc: Workers = None
    trust_network: Trust = False


@dataclass(frozen=True, slots=True)
class PlanFlags:
    """Of commands that look at `dry_run` before they load."""

    dry_run: Annotated[bool, _flag("--dry-run", "Show the memory plan, and load nothing.")] = False


@dataclass(frozen=True, slots=True)
class ServerFlags:
    server: Annotated[str | None, _flag("--server", "Ask a server with the OpenAI protocol instead: its URL.")] = (
        None
    )
    model: Annotated[str | None, _flag("--model", "Which of its models (default: the only one).")] = None
    server_key_file: Annotated[
        str | None, _flag("--server-key-file", "File with its API key (default: LOCALSPEC_API_KEY).")
    ] = None


@dataclass(frozen=True, slots=True)
class SpeculationFlags:
    method: Annotated[str | None, _flag("--method", f"{', '.join(METHODS)} (default: auto).")] = None
    draft_tokens: Annotated[str | None, _flag("--draft-tokens", "Tokens per round, or auto (default).")] = None
    verifier: Annotated[str | None, _flag("--verifier", "block (default) or token; both are exact.")] = None
    speculative_config: Annotated[str | None, _flag("--speculative-config", "vLLM's JSON, same field names.")] = (
        None
    )
    lossy: Annotated[str | None, _flag("--lossy", "typical=E or relaxed=E: accept more, and change the text.")] = (
        None
    )
    numerics: Annotated[
        str | None, _flag("--numerics", "fast (default), or strict: text identical to plain decoding.")
    ] = None


@dataclass(frozen=True, slots=True)
class SamplingFlags:
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
    logit_bias: Annotated[
        list[str] | None, _flag("--logit-bias", "ID=BIAS: add to a token's logit; repeatable.")
    ] = None
    ban_token: Annotated[list[int] | None, _flag("--ban-token", "Never choose this token id; repeatable.")] = None


@dataclass(frozen=True, slots=True)
class AnswerFlags:
    system: Annotated[str | None, _flag("--system", "The system prompt.")] = None
    max_tokens: Annotated[int | None, _flag("--max-tokens", "End after N tokens.")] = None
    stop: Annotated[list[str] | None, _flag("--stop", "End before this text; may be repeated.")] = None


@dataclass(frozen=True, slots=True)
class GrammarFlags:
    json_schema: Annotated[
        str | None, _flag("--json-schema", "File with a JSON schema that the answer follows.")
    ] = None
    grammar: Annotated[str | None, _flag("--grammar", "File with a GBNF grammar that the answer follows.")] = None


def given(*groups: Any) -> dict[str, Any]:
    """All flags of these groups by name; None where one was not given."""
    return {name: value for group in groups for name, value in asdict(group).items()}


@functools.cache
def _kinds(group: Any) -> dict[str, Any]:
    """The annotations of a group; Python reads them anew each time, and `--help` would wait for it."""
    return get_type_hints(group, include_extras=True)


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
        annotation = _kinds(group)[name]  # type: ignore[arg-type]
        parameters.append(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        )
    spreading.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    spreading.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return spreading
