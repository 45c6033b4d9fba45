"""`localspec chat`: the engine process, and the interface that fits this terminal."""

from __future__ import annotations

import sys
from pathlib import Path

from localspec.config import Config, log_file
from localspec.conversation import Conversation, Options
from localspec.engine.messages import Load
from localspec.engine.process import ProcessClient


def open_chat(load: Load, options: Options, settings: Config, *, plain: bool) -> int:
    """Run the chat to its end; the exit code."""
    client = ProcessClient(log_file())
    folder = Path(settings.export_dir).expanduser() if settings.export_dir else Path.cwd()
    try:
        if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
            from localspec.plain import PlainChat

            thoughts = settings.thinking == "show"
            return PlainChat(Conversation(client, load, options), client, folder, thoughts=thoughts).run()
        from localspec.tui.app import ChatApp

        app = ChatApp(client, load, options, folder=folder, theme=settings.theme)
        app.run()
        return app.return_code or 0
    finally:
        client.close()
