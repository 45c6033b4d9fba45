"""Commands that measure: bench."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from localspec.bench.flags import OutputFlags, PeerFlags, SuiteFlags, SweepFlags, VariantFlags
from localspec.cli.program import app
from localspec.errors import UsageError
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags, spread


@app.command()
@spread
def bench(
    model: ModelFlags,
    variants: VariantFlags,
    prompts: SuiteFlags,
    peers: PeerFlags,
    sampling: SamplingFlags,
    answer: AnswerFlags,
    output: OutputFlags,
    sweep: SweepFlags,
    *,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option("--compare", help="Two reports: what changed between them.", show_default=False),
    ] = None,
) -> None:
    """Measure methods, settings and other servers here.

    In turns on one loaded model, with confidence intervals.
    """
    from localspec.bench import command

    if sweep.yes and not sweep.sweep:
        raise UsageError("--yes answers the question of --sweep.", "Give both, or neither.")
    if compare:
        command.compare(*compare)
        return
    if sweep.sweep and prompts.limit is None:
        prompts = replace(prompts, limit=1)  # one of each category is enough to find the faster setting
    request = command.asked(model, variants, prompts, peers, sampling, answer)
    raise typer.Exit(command.sweep(request, yes=sweep.yes) if sweep.sweep else command.bench(request, output))
