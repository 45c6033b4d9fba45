"""Commands for other programs and other machines: serve, worker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from localspec.cli.program import app
from localspec.errors import LocalspecError
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags, SpeculationFlags, spread


@app.command()
@spread
def serve(
    model: ModelFlags,
    speculation: SpeculationFlags,
    sampling: SamplingFlags,
    answer: AnswerFlags,
    *,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: any free one.")] = 8080,
    api_key_file: Annotated[
        Path | None, typer.Option("--api-key-file", help="Keys that clients must send, one a line.")
    ] = None,
    cors_origin: Annotated[
        list[str] | None, typer.Option("--cors-origin", help="A web page that may ask; repeatable.")
    ] = None,
    queue: Annotated[int, typer.Option("--queue", min=0, max=1000, help="Requests that may wait.")] = 16,
    max_body: Annotated[int, typer.Option("--max-body", min=1, help="Largest request, in bytes.")] = 2 << 20,
) -> None:
    """Answer other programs over the OpenAI protocol.

    See docs/beyond-one-machine.md.
    """
    from localspec import settle
    from localspec.chat.message import Message
    from localspec.engine.messages import Generate

    try:
        from localspec.serve.command import Place
        from localspec.serve.command import serve as serve_model
    except ModuleNotFoundError as error:
        hint = "Run: pip install 'localspec[serve]'"
        raise LocalspecError(f"Serving needs the package {error.name}, which is not installed.", hint) from None
    settings, apart = settle.settle(model, speculation, sampling, answer)
    load, _ = settle.load(settings, apart)
    name = Path(apart["target"]).name.removesuffix(".gguf") if apart.get("target") else settings.pair
    defaults = Generate(
        turn=0,
        messages=(Message("system", settings.system),) if settings.system else (),
        sampling=settle.sampling(settings, apart),
        max_tokens=settings.max_tokens,
        stop=tuple(apart["stop"] or ()),
        **settle.speculation(settings),
    )
    place = Place(host, port, api_key_file, tuple(cors_origin or ()), queue, max_body)
    raise typer.Exit(serve_model(load, name, defaults, place))


@app.command()
def worker(
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=1, max=65535, help="Port.")] = 50052,
    memory: Annotated[
        int | None, typer.Option("--memory", min=1, show_default=False, help="MiB that others may use here.")
    ] = None,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, show_default=False, help="CPU threads.")
    ] = None,
    trust_network: Annotated[
        bool, typer.Option("--i-trust-this-network", help="Needed for other addresses than this machine's own.")
    ] = False,
) -> None:
    """Compute layers for a model on another machine.

    Over llama.cpp's RPC: see docs/beyond-one-machine.md.
    """
    from localspec.worker import work

    raise typer.Exit(work(host, port, threads, memory, trusted=trust_network))
