"""Commands about the machine: doctor."""

from __future__ import annotations

from typing import Annotated

import typer

from localspec import addresses
from localspec.cli.program import app
from localspec.flags import Trust, Workers


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    rpc: Workers = None,
    trust_network: Trust = False,
) -> None:
    """Say what works here, and how to mend what does not.

    With --rpc, of these workers as well.
    """
    from localspec.doctor import doctor as examine

    raise typer.Exit(examine(as_json=as_json, rpc=addresses.places(rpc, trusted=trust_network)))
