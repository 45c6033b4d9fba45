"""Commands about model files: inspect, models, pull, rm, scan."""

from __future__ import annotations

from typing import Annotated

import typer

from localspec.cli.program import app


@app.command()
def inspect(
    file: Annotated[str, typer.Argument(help="A GGUF file; of one in parts, the first.")],
    draft: Annotated[str | None, typer.Option("--draft", help="Can this file draft for it?")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say what a model file is, and what drafts for it.

    Whether it is whole, how its cache goes back, which drafters work, and whether --draft FILE fits.
    """
    from localspec.shelf.inspecting import inspect as inspect_file

    raise typer.Exit(inspect_file(file, draft, as_json=as_json))


@app.command()
def models(
    n_ctx: Annotated[
        int | None, typer.Option("--n-ctx", min=1, show_default=False, help="Context to count with.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List models: what is here, what fits, and why not."""
    from localspec import config
    from localspec.shelf.listing import models as list_models

    settings = config.load()
    raise typer.Exit(list_models(settings.model_dirs, n_ctx=n_ctx or settings.n_ctx, as_json=as_json))


@app.command()
def pull(
    pair: Annotated[str, typer.Argument(help="A pair by name, or a file as hf:owner/repository/file.gguf")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be fetched.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Fetch a pair from the Hugging Face Hub.

    After an interruption it goes on where it stopped.
    """
    from localspec import config
    from localspec.shelf.pulling import pull as pull_pair

    raise typer.Exit(pull_pair(pair, transfer=config.load().transfer, dry_run=dry_run, as_json=as_json))


@app.command()
def rm(
    pair: Annotated[str | None, typer.Argument(help="A pair by name, or hf:owner/repository/file.gguf")] = None,
    partial: Annotated[bool, typer.Option("--partial", help="What interrupted downloads left.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete what was downloaded for a pair, after asking."""
    from localspec.errors import UsageError
    from localspec.shelf.tidying import remove

    if (pair is None) != partial:
        raise UsageError("rm takes a pair, or --partial.", "`localspec scan` shows what is stored.")
    raise typer.Exit(remove(pair, yes=yes))


@app.command()
def scan(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Show downloaded models, their sizes and leftovers.

    Where each is stored, which program fetched it, and what interrupted downloads left.
    """
    from localspec.shelf.tidying import scan as scan_cache

    raise typer.Exit(scan_cache(as_json=as_json))
