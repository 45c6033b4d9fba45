"""`localspec pull`: what a pair needs, how much of it is here, then the download with its progress.

The plan is data and goes to standard output, progress is narration and goes to standard error.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

from localspec import catalog, hub
from localspec.catalog import FileRef, Pair
from localspec.chat.text import one_line
from localspec.errors import UsageError
from localspec.hub import Cancelled, Plan
from localspec.shelf.progress import showing, size

SCHEMA = "localspec.pull/1"


def pull(name: str, *, transfer: hub.Transfer = "http", dry_run: bool = False, as_json: bool = False) -> int:
    """Fetch what the pair lacks; returns the exit code."""
    try:
        pair = referred(name)
        plan = hub.plan(pair)
        if not plan.files:
            catalog.resolve(pair)  # says how to get what does not come from the Hub
        if not as_json:
            print("\n".join(_table(plan)))
        paths = () if dry_run else _fetch(plan, transfer)
    except (Cancelled, KeyboardInterrupt):
        raise _Stopped(name) from None
    if as_json:
        print(json.dumps(_document(name, plan, paths), ensure_ascii=False, indent=2))
    elif paths:
        print(f"Ready: localspec chat {_flags(name, plan, paths)}")
    return 0


def referred(name: str) -> Pair:
    """The pair of that name; `owner/repository/file.gguf`, with or without `hf:` before it, is a target alone."""
    bare = name.removeprefix("hf:")
    if bare == name and not name.lower().endswith(".gguf"):
        return catalog.find(name)
    owner, _, rest = bare.partition("/")
    repo, _, file = rest.partition("/")
    if not (owner and repo and file):
        raise UsageError(f"{name!r} names no file on the Hub.", "It looks like hf:owner/repository/file.gguf")
    return Pair(name, name, FileRef(repo=f"{owner}/{repo}", file=file))


class _Stopped(Cancelled):
    """The same in the words of the command line."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.hint = f"What has arrived is kept. To go on: localspec pull {quote(name)}"


def _fetch(plan: Plan, transfer: hub.Transfer) -> tuple[Path, ...]:
    if not plan.missing_bytes:
        return hub.fetch(plan, lambda _: None, lambda: False)
    with showing(plan) as report:
        return hub.fetch(plan, report, lambda: False, transfer=transfer)


def _table(plan: Plan) -> Iterator[str]:
    for file in plan.files:
        state = "here" if file.here else f"{size(file.partial)} here" if file.partial else "to fetch"
        yield f"{file.role:<7} {size(file.size):>9}  {state:<14} {one_line(f'{file.repo}/{file.name}', 200)}"
    yield from plan.notes
    if plan.files:
        free = size(hub.free_bytes(plan.cache))
        missing = f"{size(plan.missing_bytes)} of {size(plan.total_bytes)} to fetch"
        yield f"{missing if plan.missing_bytes else 'Nothing to fetch'}; {free} free in {plan.cache}"


def _document(name: str, plan: Plan, paths: tuple[Path, ...]) -> dict[str, Any]:
    where = [str(path) for path in paths] or [""] * len(plan.files)
    return {
        "schema": SCHEMA,
        "pair": name,
        "cache": str(plan.cache),
        "total_bytes": plan.total_bytes,
        "missing_bytes": plan.missing_bytes,
        "notes": plan.notes,
        "files": [asdict(file) | {"path": path or None} for file, path in zip(plan.files, where, strict=True)],
    }


def _flags(name: str, plan: Plan, paths: tuple[Path, ...]) -> str:
    if name in catalog.load_pairs():
        return f"--pair {quote(name)}"
    first = {file.role: path for file, path in reversed(list(zip(plan.files, paths, strict=True)))}
    return f"--target {quote(str(first['target']))}"
