"""Commands about answers that are over: replay."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from localspec.cli.program import app
from localspec.errors import UsageError

if TYPE_CHECKING:
    from localspec.conversation import Options
    from localspec.engine.messages import Load
    from localspec.engine.replay import ReplayClient


@app.command()
def replay(
    file: Annotated[str, typer.Argument(help="A trace: localspec run --trace writes one, the chat saves one.")],
    speed: Annotated[float, typer.Option("--speed", help="2 is twice as fast as it was.")] = 1.0,
    plain: Annotated[bool, typer.Option("--plain", help="Lines instead of a screen.")] = False,
) -> None:
    """Show a recorded answer again, with no model.

    At the speed at which it was written.
    """
    from pathlib import Path

    from localspec.chat.trace_reading import read
    from localspec.engine.replay import ReplayClient

    if not 0 < speed < float("inf"):
        raise UsageError(f"--speed is {speed:g}.", "It must be above 0: 1 is as it was, 2 twice as fast.")
    client = ReplayClient(read(Path(file)), speed)
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.Exit(_lines(client))
    raise typer.Exit(_screen(client))


def _lines(client: ReplayClient) -> int:
    from pathlib import Path

    from localspec.conversation import Conversation
    from localspec.plain import PlainChat

    conversation = Conversation(client, *_settings(client))
    conversation.submit(client.prompt)
    return PlainChat(conversation, client, Path.cwd()).once()


def _screen(client: ReplayClient) -> int:
    from localspec import config
    from localspec.tui.app import ChatApp

    app = ChatApp(client, *_settings(client), theme=config.load({}).theme)
    app.conversation.submit(client.prompt)
    app.run()
    return app.return_code or 0


def _settings(client: ReplayClient) -> tuple[Load, Options]:
    from localspec.conversation import Options
    from localspec.engine.messages import Load
    from localspec.model import ModelSpec

    header = client.trace.header
    options = Options(
        f"{header.title} (replay)",
        method=header.method,
        draft_tokens=header.draft_tokens,
        sampling=client.sampling,
        verifier=header.verifier,
    )
    return Load(ModelSpec(header.title)), options
