"""`localspec chat`: the engine process, the sessions that are kept, and the interface that fits this terminal."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localspec.chat.finding import latest_session, named_session
from localspec.chat.keeper import Keeper
from localspec.chat.store import Store
from localspec.config import Config, data_dir, log_file
from localspec.config import keys as user_keys
from localspec.conversation import Conversation, Options
from localspec.engine.client import EngineClient
from localspec.engine.messages import Load
from localspec.engine.process import ProcessClient
from localspec.errors import StoreError

if TYPE_CHECKING:
    from localspec.opening import Opening
    from localspec.tui.supply import Supply


@dataclass(frozen=True, slots=True)
class Resume:
    """Which session to go on with: the latest one where `name` is None. `sampling` and `system` are what the command
    line says beside it; everything else is as the session had it."""

    name: str | None
    sampling: dict[str, Any] = field(default_factory=dict)
    system: str | None = None


def sessions_file() -> Path:
    return data_dir() / "sessions.db"


def on_screen(plain: bool) -> bool:
    """Whether a chat has a screen here, or talks line by line."""
    return not plain and sys.stdin.isatty() and sys.stdout.isatty()


def open_chat(
    load: Load | None,
    options: Options,
    settings: Config,
    *,
    plain: bool,
    resume: Resume | None = None,
    client: EngineClient | None = None,
    opening: Opening | None = None,
) -> int:
    """Run the chat to its end; the exit code. `client` is an engine that works elsewhere, `opening` loads models that
    are chosen on the screen. Without `load`, which needs a screen, the user chooses the first one, too."""
    keeper = _keeper(required=resume is not None)
    client = client or ProcessClient(log_file())
    folder = Path(os.path.expanduser(settings.export_dir)) if settings.export_dir else Path.cwd()
    try:
        if not on_screen(plain):
            from localspec.plain import PlainChat

            conversation = _resumed(Conversation(client, load, options, keeper), resume)
            chosen = opening.chosen if opening else None
            return PlainChat(conversation, client, folder, settings.thinking == "show", chosen).run()
        from localspec.tui.app import ChatApp
        from localspec.tui.keymap import keymap

        app = ChatApp(
            client,
            load,
            options,
            folder=folder,
            theme=settings.theme,
            keeper=keeper,
            keys=keymap(user_keys()),
            thoughts=settings.thinking == "show",
            supply=_supply(opening, settings) if opening else None,
        )
        _resumed(app.conversation, resume)
        app.run()
        return app.return_code or 0
    finally:
        client.close()
        keeper.close()
        if not keeper.saved:
            print("localspec: the end of this conversation could not be saved.", file=sys.stderr)


def _supply(opening: Opening, settings: Config) -> Supply:
    from localspec.shelf.fetching import Downloads
    from localspec.tui.supply import Supply

    folders = (settings.model_dirs or "").split(os.pathsep)
    return Supply(
        opening.chosen,
        tuple(Path(folder) for folder in folders if folder),
        settings.n_ctx,
        Downloads(settings.transfer),
        settings.pair,
    )


def _keeper(*, required: bool) -> Keeper:
    """A chat goes on without a file of sessions, unless it is asked to go on with one of them."""
    try:
        return Keeper(Store(sessions_file()), time.time)
    except StoreError as error:
        if required:
            raise
        keeper = Keeper(Store(), time.time)
        keeper.notices.append(f"{error.message} This chat is not saved.")
        return keeper


def _resumed(conversation: Conversation, resume: Resume | None) -> Conversation:
    if resume is None:
        return conversation
    rows = conversation.sessions()
    row = latest_session(rows) if resume.name is None else named_session(rows, resume.name)
    conversation.open_session(row.id)
    if resume.sampling:
        conversation.set_sampling(replace(conversation.options.sampling, **resume.sampling))
    if resume.system is not None:
        conversation.set_system(resume.system)
    return conversation
