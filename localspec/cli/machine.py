"""Commands about the machine: doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from localspec.cli.program import app


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Say what works here, and how to mend what does not."""
    from localspec.doctor import doctor as examine

    raise typer.Exit(examine(as_json=as_json))
