"""Commands about model files: inspect."""

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
    """Say what a file is, whether it is whole, and whether another can draft for it."""
    from localspec.inspecting import inspect as inspect_file

    raise typer.Exit(inspect_file(file, draft, as_json=as_json))
