"""localspec sessions: list, show, search, export, import, rename and delete the conversations that are kept."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from localspec.cli.program import app
from localspec.errors import UsageError

if TYPE_CHECKING:
    from localspec.chat.store import Row, Store

sessions = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(sessions, name="sessions", help="List, search, export, rename and delete conversations.")

Named = Annotated[str, typer.Argument(metavar="SESSION", help="Its title, or the beginning of its id.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@sessions.command("list")
def list_sessions(
    as_json: AsJson = False, limit: Annotated[int, typer.Option(min=1, help="How many.")] = 50
) -> None:
    """The latest sessions first."""
    with _store() as store:
        rows = store.sessions(limit)
    if as_json:
        _print_json([_described(row) for row in rows])
    elif not rows:
        _say("There are no sessions yet.")
    for row in rows if not as_json else ():
        print(_line(row))


@sessions.command()
def show(session: Named) -> None:
    """A session as Markdown: what was said, in order."""
    from localspec.chat.text import visible
    from localspec.chat.written import markdown

    with _store() as store:
        text = markdown(store.read(_named(store, session).id))
    print(visible(text) if sys.stdout.isatty() else text, end="")


@sessions.command()
def search(
    words: Annotated[list[str], typer.Argument(help="Words that a message has; the last may be unfinished.")],
    as_json: AsJson = False,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
) -> None:
    """Messages of all sessions with these words, the latest first."""
    from dataclasses import asdict

    from localspec.chat.text import one_line

    with _store() as store:
        hits = store.search(" ".join(words), limit)
    if as_json:
        _print_json([asdict(hit) for hit in hits])
        return
    if not hits:
        _say("Nothing was said with these words.")
    for hit in hits:
        print(f"{hit.session}  {one_line(hit.title, 40)}: {one_line(hit.line, 200)}")


@sessions.command()
def export(
    session: Named,
    file: Annotated[
        str, typer.Argument(help="Where to: FILE.md to read, FILE.json with everything; - prints JSON.")
    ],
) -> None:
    """Write a session to a file that does not exist yet."""
    from datetime import datetime

    from localspec.chat.written import as_json, save

    with _store() as store:
        read = store.read(_named(store, session).id)
    now = datetime.now().astimezone()
    if file == "-":
        print(as_json(read, now=now), end="")
    else:
        save(read, Path(file), now=now)
        _say(f"Wrote {file}.")


@sessions.command("import")
def import_session(file: Annotated[str, typer.Argument(help="A JSON file that sessions export wrote.")]) -> None:
    """Read a session back; it gets an id of its own."""
    from time import time

    from localspec.chat.written import from_plain

    try:
        plain = json.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise UsageError(
            f"Cannot read {file}: {error.strerror}.", "Give the path of an exported session."
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(f"{file} is no JSON.", "Only the JSON form of an export can be read back.") from None
    session = from_plain(plain, file)
    with _store() as store:
        store.write(session, session.nodes(), (), time())
    print(session.id)


@sessions.command()
def rename(session: Named, title: Annotated[str, typer.Argument(help="The new title.")]) -> None:
    """Give a session another title."""
    title = " ".join(title.split())
    if not title:
        raise UsageError("The title is empty.", "Give it a word or two.")
    with _store() as store:
        row = _claimed(store, session)
        store.rename(row.id, title)


@sessions.command()
def rm(session: Named, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Delete a session for good, after asking."""
    from localspec.chat.text import one_line

    with _store() as store:
        row = _claimed(store, session)
        if not yes:
            typer.confirm(f"Delete {one_line(row.title, 60)!r} with {row.messages} messages?", abort=True, err=True)
        store.delete(row.id)


@contextmanager
def _store() -> Iterator[Store]:
    from localspec.chat.store import Store
    from localspec.chatting import sessions_file

    store = Store(sessions_file())
    if store.notice:
        _say(store.notice)
    try:
        yield store
    finally:
        store.close()


def _named(store: Store, name: str) -> Row:
    from localspec.chat.finding import named_session

    return named_session(store.sessions(), name)


def _claimed(store: Store, name: str) -> Row:
    row = _named(store, name)
    if not store.claim(row.id):
        raise UsageError("This session is open in another localspec.", "Close it there first.")
    return row


def _described(row: Row) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(row)


def _line(row: Row) -> str:
    from time import time

    from localspec.chat.finding import ago
    from localspec.chat.text import one_line

    age = ago(time() - row.updated)
    return f"{row.id}  {age:>6}  {row.messages:>5}  {one_line(row.title, 60)}  ({one_line(row.model, 40)})"


def _print_json(found: Any) -> None:
    print(json.dumps(found, ensure_ascii=False, indent=1))


def _say(text: str) -> None:
    print(text, file=sys.stderr)
