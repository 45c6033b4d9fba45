"""Commands that load a model: chat, run, verify."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli.program import app
from localspec.errors import UsageError
from localspec.flags import (
    AnswerFlags,
    GrammarFlags,
    ModelFlags,
    PlanFlags,
    SamplingFlags,
    ServerFlags,
    SpeculationFlags,
    given,
    spread,
)

_FIELDS = {"ban_token": "banned"}  # of Sampling, where they are not called like their flags

if TYPE_CHECKING:
    from localspec.config import Config
    from localspec.engine.client import EngineClient
    from localspec.engine.messages import Event, Load
    from localspec.engine.remote import RemoteEngine, Site


@app.command()
@spread
def chat(
    model: ModelFlags,
    plan: PlanFlags,
    speculation: SpeculationFlags,
    sampling: SamplingFlags,
    answer: AnswerFlags,
    server: ServerFlags,
    *,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a screen.")] = False,
    go_on: Annotated[bool, typer.Option("--continue", help="Go on with the latest session.")] = False,
    session: Annotated[
        str | None, typer.Option("--session", help="Go on with this one: its title, or the beginning of its id.")
    ] = None,
) -> None:
    """Chat with a model.

    On the screen; line by line with --plain or without a terminal.
    """
    from localspec import settle
    from localspec.chatting import Resume, on_screen, open_chat
    from localspec.opening import Opening, options

    if go_on and session is not None:
        raise UsageError("--continue and --session are two ways to name one session.", "Give one of them.")
    site = _site(server, model, speculation)
    settings, apart = settle.settle(_own(model, site), speculation, sampling, answer)
    loading = partial(_loading, site, settings, apart, speculation, remember=True)
    waits = on_screen(plain) and not plan.dry_run
    load, title, drafting = _unless_missing(loading, settings) if waits else loading()
    if load and plan.dry_run:
        raise _planned(load, title)
    asked = options(settings, apart, title, drafting)
    flags = {name for name, flag in given(sampling).items() if flag is not None}
    said = {_FIELDS.get(name, name): getattr(asked.sampling, _FIELDS.get(name, name)) for name in flags}
    resume = Resume(session, said, answer.system) if go_on or session is not None else None
    opening = None if site else Opening(model, speculation, sampling, answer)
    raise typer.Exit(
        open_chat(load, asked, settings, plain=plain, resume=resume, client=_client(site), opening=opening)
    )


@app.command()
@spread
def run(
    prompt: Annotated[str, typer.Argument(help="What to ask; - reads standard input.")],
    model: ModelFlags,
    plan: PlanFlags,
    speculation: SpeculationFlags,
    sampling: SamplingFlags,
    answer: AnswerFlags,
    grammar: GrammarFlags,
    server: ServerFlags,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object with all figures.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Continue the text: no chat template.")] = False,
    logprobs: Annotated[
        int | None,
        typer.Option(min=0, max=100, show_default=False, help="With --json or --trace: N best per token."),
    ] = None,
    trace: Annotated[
        str | None, typer.Option("--trace", help="Write every round to this file, for localspec replay.")
    ] = None,
    file: Annotated[
        list[Path] | None, typer.Option("--file", help="A text file that goes with the prompt; repeatable.")
    ] = None,
) -> None:
    """Answer one prompt on standard output."""
    from localspec import settle
    from localspec.attachments import with_files
    from localspec.chat.message import Message
    from localspec.engine.messages import Generate
    from localspec.run import run as answer_once

    site = _site(server, model, speculation)
    settings, apart = settle.settle(_own(model, site), speculation, sampling, answer)
    if logprobs is not None and not (as_json or trace):
        raise UsageError("--logprobs needs --json or --trace.", "Only they have a place for them.")
    if raw and answer.system:
        raise UsageError("--system needs the chat template that --raw leaves out.", "Drop one of the two.")
    text = sys.stdin.read() if prompt == "-" else prompt
    if not text:
        raise UsageError("The prompt is empty.", "Write it in quotes, or pipe it in and give - as the prompt.")
    text += with_files(file or (), Path.cwd())
    load, title, drafting = _loading(site, settings, apart, speculation)
    if plan.dry_run:
        raise _planned(load, title, as_json=as_json)
    system = (Message("system", settings.system),) if settings.system else ()
    command = Generate(
        turn=0,
        messages=() if raw else (*system, Message("user", text)),
        prompt=text if raw else None,
        sampling=settle.sampling(settings, apart),
        max_tokens=settings.max_tokens,
        stop=tuple(apart["stop"] or ()),
        logprobs=logprobs,
        grammar=settle.grammar(grammar.json_schema, grammar.grammar),
        **drafting,
    )
    path = Path(os.path.expanduser(trace)) if trace else None
    raise typer.Exit(answer_once(load, command, as_json=as_json, title=title, trace=path, engine=_engine(site)))


@app.command()
@spread
def verify(
    model: ModelFlags,
    plan: PlanFlags,
    speculation: SpeculationFlags,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer prompts and draws: a first look.")] = False,
) -> None:
    """Prove that speculation does not change the text.

    On the loaded pair: greedy text against plain decoding, and draws against the target's distribution.
    """
    from localspec import settle
    from localspec.proving import verify as prove

    settings, apart = settle.settle(model, speculation)
    load, title = settle.load(settings, apart)
    if plan.dry_run:
        raise _planned(load, title, as_json=as_json)
    asked = settle.speculation(settings)
    methods = (asked["method"],) if speculation.method else None
    how = {"draft_tokens": asked["draft_tokens"], "verifier": asked["verifier"]}
    raise typer.Exit(prove(load, title, methods=methods, **how, quick=quick, as_json=as_json))


def _planned(load: Load, title: str, *, as_json: bool = False) -> typer.Exit:
    """What --dry-run does instead."""
    from localspec.planning import show

    return typer.Exit(show(load, title, as_json=as_json))


def _site(server: ServerFlags, model: ModelFlags, speculation: SpeculationFlags) -> Site | None:
    """The server of --server, once it has answered."""
    if server.server is None:
        if server != ServerFlags():
            raise UsageError("--model and --server-key-file belong to --server.", "Give its address: --server URL")
        return None
    from localspec.serverside import reached

    return reached(server, model, speculation)


def _own(model: ModelFlags, site: Site | None) -> ModelFlags:
    """What a server serves is no pair of the catalogue's."""
    return replace(model, target=site.title) if site else model


def _loading(
    site: Site | None, settings: Config, apart: dict[str, Any], flags: SpeculationFlags, *, remember: bool = False
) -> tuple[Load, str, dict[str, Any]]:
    """What to load, a title for people, and how it drafts as fields of `Generate`."""
    from localspec import settle

    drafting = settle.speculation(settings)
    if site is None:
        return *settle.load(settings, apart, remember=remember), drafting
    from localspec import serverside

    return serverside.load(site), site.title, serverside.speculation(site, flags, drafting)


def _unless_missing(
    loading: Callable[[], tuple[Load, str, dict[str, Any]]], settings: Config
) -> tuple[Load | None, str, dict[str, Any]]:
    """What to load; nothing where the files of the pair are not here, since the screen offers to get them."""
    from localspec import catalog, settle

    try:
        return loading()
    except catalog.NotHere:
        return None, catalog.find(settings.pair).title, settle.speculation(settings)


def _client(site: Site | None) -> EngineClient | None:
    if site is None:
        return None
    from localspec.engine.remote import RemoteClient

    return RemoteClient(site.address)


def _engine(site: Site | None) -> Callable[[Callable[[Event], None]], RemoteEngine] | None:
    if site is None:
        return None
    from localspec.engine.remote import RemoteEngine

    return partial(RemoteEngine, site.address)
