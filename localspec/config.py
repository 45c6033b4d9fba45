"""Settings and where they come from: defaults, then the config file, then the environment, then flags.

A key of the file (`top_k = 20`), a variable (`LOCALSPEC_TOP_K=20`) and a flag (`--top-k 20`) have the same name.
Also says where the program keeps its files. Knows nothing of what the settings do, and imports nothing heavy.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from types import NoneType
from typing import Any, Literal, TypeAlias, get_args, get_origin, get_type_hints

import platformdirs

from localspec import config_file as files
from localspec.errors import SamplingError, UnknownName, UsageError
from localspec.spec.settings import Sampling

Value: TypeAlias = str | int | float | None

_DEFAULT = Sampling()
_PREFIX = "LOCALSPEC_"
_KEY = "LOCALSPEC_API_KEY"  # no setting: keyfile.py reads it
_LEAST = {
    "draft_tokens": 0,
    "max_tokens": 1,
    "n_ctx": 1,
    "n_batch": 65,
    "threads": 1,
    "gpu_layers": -1,
    "lookup_min": 2,
    "lookup_max": 2,
    "remember_tokens": 0,
}
_LEAST |= {f"draft_{name}": _LEAST[name] for name in ("n_ctx", "threads", "gpu_layers")}


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting that may stand in the config file. None leaves the choice to the engine."""

    pair: str = "demo"
    method: str = "auto"
    draft_tokens: int | Literal["auto"] = "auto"
    verifier: Literal["block", "token"] = "block"
    numerics: Literal["fast", "strict"] = "fast"
    lossy: str | None = None
    lookup_min: int = 2
    lookup_max: int = 32
    temperature: float = _DEFAULT.temperature
    top_k: int = _DEFAULT.top_k
    top_p: float = _DEFAULT.top_p
    min_p: float = _DEFAULT.min_p
    repeat_penalty: float = _DEFAULT.repeat_penalty
    presence_penalty: float = _DEFAULT.presence_penalty
    frequency_penalty: float = _DEFAULT.frequency_penalty
    penalty_last_n: int = _DEFAULT.penalty_last_n
    seed: int | None = None
    max_tokens: int | None = None
    system: str | None = None
    n_ctx: int | None = None
    gpu_layers: int | None = None
    threads: int | None = None
    draft_n_ctx: int | None = None
    draft_gpu_layers: int | None = None
    draft_threads: int | None = None
    flash_attn: Literal["auto", "on", "off"] = "auto"
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    n_batch: int | None = None
    remember_tokens: int = 262_144  # of earlier answers, kept for the suffix drafter; 0 keeps none
    thinking: Literal["show", "hide"] = "show"  # what a model thinks before it answers
    alternatives: Literal["view", "always", "never"] = "view"  # what else the model considered, in the token view
    transfer: Literal["http", "xet"] = "http"  # how models are fetched
    theme: str | None = None
    export_dir: str | None = None
    model_dirs: str | None = None  # folders with GGUF files, apart as in PATH

    @property
    def sampling(self) -> Sampling:
        return Sampling(**{name: getattr(self, name) for name in _SAMPLING})


_KINDS = get_type_hints(Config)
_SAMPLING = _KINDS.keys() & {field.name for field in fields(Sampling)}


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and who said so: "default", the path of the file, a variable or a flag."""

    value: Value
    origin: str


def load(
    flags: Mapping[str, Value] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Config:
    """The settings in effect. A flag that is None was not given."""
    found: dict[str, Any] = {name: setting.value for name, setting in settings(flags, env=env, file=file).items()}
    return Config(**found)


def settings(
    flags: Mapping[str, Value] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> dict[str, Setting]:
    """The same with their origins, for `config show`."""
    found = {name: Setting(value, "default") for name, value in _values(Config()).items()}
    found |= _from_file(file or config_file())
    found |= _from_environment(os.environ if env is None else env)
    return found | _from_flags(flags or {})


def _values(config: Config) -> dict[str, Value]:
    return {name: getattr(config, name) for name in _KINDS}


def keys(file: Path | None = None) -> dict[str, Setting]:
    """The table `keys`: by the id of a binding, the keys that a user wants for it. The screen knows the ids."""
    found = files.read(file or config_file())
    table = found.table().get("keys", {})
    if not isinstance(table, dict):
        raise UsageError(f"{found.where('keys')}: keys is a table.", 'Write [keys], then "chat.stop" = "ctrl+x".')
    for name, value in table.items():
        if not isinstance(value, str) or not value.strip():
            where = found.where(name, "keys")
            raise UsageError(f"{where}: {name} must be a text, not {value!r}.", 'Quote it: "chat.stop" = "ctrl+x".')
    return {name: Setting(value, found.where(name, "keys")) for name, value in table.items()}


def _from_file(file: Path) -> dict[str, Setting]:
    found = files.read(file)
    table = {name: value for name, value in found.table().items() if name != "keys"}
    for name, value in table.items():
        where = found.where(name)
        if name not in _KINDS:
            raise files.unknown(where, "setting", name, (*_KINDS, "keys"))
        if not _fits(value, _KINDS[name]):
            raise UsageError(f"{where}: {name} must be {_described(_KINDS[name])}, not {value!r}.")
        _check(name, value, f"{where}: {name}")
    keys(file)
    return {name: Setting(value, str(file)) for name, value in table.items()}


def _from_environment(env: Mapping[str, str]) -> dict[str, Setting]:
    found = {}
    for variable in sorted(v for v in env if v.startswith(_PREFIX) and env[v] and v != _KEY):
        name = variable.removeprefix(_PREFIX).lower()
        if name not in _KINDS:
            raise UnknownName("variable", variable, (_PREFIX + known.upper() for known in _KINDS))
        value = _parsed(env[variable], _KINDS[name])
        if not _fits(value, _KINDS[name]):
            raise UsageError(f"{variable} must be {_described(_KINDS[name])}, not {env[variable]!r}.")
        _check(name, value, variable)
        found[name] = Setting(value, variable)
    return found


def _from_flags(flags: Mapping[str, Value]) -> dict[str, Setting]:
    found = {}
    for name, value in flags.items():
        if value is not None:
            flag, kind = "--" + name.replace("_", "-"), _KINDS[name]
            read = _parsed(value, kind) if isinstance(value, str) else value
            if not _fits(read, kind):
                raise UsageError(f"{flag} must be {_described(kind)}, not {value!r}.")
            _check(name, read, flag)
            found[name] = Setting(read, flag)
    return found


def _parsed(text: str, kind: Any) -> Value:
    """`text` as the number that is wanted; itself where it is none."""
    for number in (int, float):
        if number in (kind, *get_args(kind)):
            try:
                return number(text)
            except ValueError:
                return text
    return text


def _fits(value: object, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kinds := get_args(kind):
        return any(_fits(value, each) for each in kinds)
    # Python takes True for a number, people don't; a whole number is a fraction as well.
    return type(value) is kind or (type(value) is int and kind is float)


def _described(kind: Any) -> str:
    names = {str: "a text", int: "a whole number", float: "a number"}
    if get_origin(kind) is Literal:
        return " or ".join(map(repr, get_args(kind)))
    return " or ".join(
        _described(k) if get_args(k) else names[k] for k in get_args(kind) or (kind,) if k is not NoneType
    )


def _check(name: str, value: Any, where: str) -> None:
    """The range, as far as it is known before a model is loaded."""
    if name in _SAMPLING:
        try:
            Sampling(**{name: value})
        except SamplingError as error:
            raise UsageError(f"{where} is {value}.", error.hint) from None
    elif name in _LEAST and isinstance(value, int) and value < _LEAST[name]:
        raise UsageError(f"{where} is {value}.", f"It must be at least {_LEAST[name]}.")


def config_dir() -> Path:
    return _folder(platformdirs.user_config_dir, "config")


def data_dir() -> Path:
    return _folder(platformdirs.user_data_dir, "data")


def cache_dir() -> Path:
    return _folder(platformdirs.user_cache_dir, "cache")


def log_file() -> Path:
    """Its folder is made: what a dying process has to say must not be lost for want of one."""
    folder = _folder(platformdirs.user_log_dir, "log")
    with suppress(OSError):  # a read-only home is no reason not to chat
        folder.mkdir(parents=True, exist_ok=True)
    return folder / "localspec.log"


def config_file() -> Path:
    return config_dir() / "config.toml"


def _folder(find: Callable[[str, Literal[False]], str], kind: str) -> Path:
    """Where this system keeps such files. A container may run a user that has no home at all: then the folder for
    temporary files has to do, and `config path` shows it."""
    try:
        return Path(find("localspec", False))
    except RuntimeError:
        return Path(tempfile.gettempdir(), f"localspec-{os.getuid()}", kind)
