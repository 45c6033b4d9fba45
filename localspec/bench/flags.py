"""The flags of `localspec bench` that no other command has. Imports nothing heavy: `--help` loads it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


def _flag(name: str, help: str) -> Any:
    return typer.Option(name, help=help, show_default=False)


@dataclass(frozen=True, slots=True)
class VariantFlags:
    methods: Annotated[str | None, _flag("--methods", "Which to compare: off,lookup,... (default: all).")] = None
    draft_lengths: Annotated[str | None, _flag("--draft-lengths", "Tokens a round: auto,2,4 (default: auto).")] = (
        None
    )
    verifiers: Annotated[str | None, _flag("--verifiers", "block,token (default: block).")] = None
    temperatures: Annotated[str | None, _flag("--temperatures", "For example 0,0.8 (default: 0).")] = None
    attention: Annotated[
        str | None, _flag("--attention", "Flash attention and cache of each load: on/q8_0,off/f16")
    ] = None
    numerics: Annotated[str | None, _flag("--numerics", "fast (default), or strict: as in `localspec run`.")] = None


@dataclass(frozen=True, slots=True)
class SuiteFlags:
    suite: Annotated[Path | None, _flag("--suite", "Your own prompts: JSONL, as in docs/bench.md.")] = None
    category: Annotated[list[str] | None, _flag("--category", "Only this category; repeatable.")] = None
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="At most N prompts per category.")] = None
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How often each prompt is answered.")] = 1
    warmup: Annotated[int, typer.Option("--warmup", min=0, help="Answers that are dropped, per variant.")] = 1
    full_length: Annotated[bool, typer.Option("--full-length", help="No end tokens: answers of equal length.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class PeerFlags:
    peer: Annotated[list[str] | None, _flag("--peer", "llama-server=PATH: start it beside; repeatable.")] = None
    peer_url: Annotated[
        list[str] | None, _flag("--peer-url", "An OpenAI-compatible server: URL or URL#MODEL; repeatable.")
    ] = None


@dataclass(frozen=True, slots=True)
class OutputFlags:
    json_file: Annotated[Path | None, _flag("--json", "Write the report to this file.")] = None
    report: Annotated[Path | None, _flag("--report", "Write JSON, Markdown and charts to this folder.")] = None


@dataclass(frozen=True, slots=True)
class SweepFlags:
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Find this machine's best settings, offer to keep them.")
    ] = False
    yes: Annotated[bool, typer.Option("--yes", help="With --sweep: keep them without asking.")] = False
