"""Every binding by its id, and the keys that a user wants instead: checked before the screen opens."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache

from textual.binding import Binding
from textual.dom import DOMNode
from textual.keys import Keys

import localspec.tui
from localspec.config import Setting
from localspec.config_file import unknown
from localspec.errors import UsageError

_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_TOGETHER = ("prompt", "chat", "app")  # these are on one screen; every other group is alone with the app's


@cache
def bindings() -> dict[str, Binding]:
    """All bindings that have an id, of every screen and widget of the program."""
    for module in pkgutil.walk_packages(localspec.tui.__path__, "localspec.tui."):
        importlib.import_module(module.name)
    found = (binding for kind in _subclasses(DOMNode) for binding in vars(kind).get("BINDINGS", ()))
    return {binding.id: binding for binding in found if isinstance(binding, Binding) and binding.id}


def keymap(wanted: Mapping[str, Setting]) -> dict[str, str]:
    """What Textual's `set_keymap` takes. Raises for an unknown id, an unknown key, and a key with two meanings."""
    if not wanted:
        return {}
    known = bindings()
    for name, setting in wanted.items():
        if name not in known:
            raise unknown(setting.origin, "key binding", name, known)
        for key in _keys(setting.value):
            _check(key, setting.origin)
    chosen = {name: ",".join(_keys(setting.value)) for name, setting in wanted.items()}
    effective = {name: _keys(chosen.get(name, binding.key)) for name, binding in known.items()}
    for name, setting in wanted.items():
        _refuse_clash(name, effective, setting.origin)
    return chosen


def shown(keys: str) -> str:
    """`ctrl+t,f3` -> `Ctrl+T  F3`. Terminals send Ctrl+/ as Ctrl+_."""
    return "  ".join(
        "+".join(_NAMES.get(part, part.capitalize()) for part in key.split("+")) for key in _keys(keys)
    )


_NAMES = {
    "up": "↑",
    "down": "↓",
    "left": "←",
    "right": "→",
    "pageup": "PgUp",
    "pagedown": "PgDn",
    "underscore": "/",
    "escape": "Esc",
}


def _keys(keys: object) -> list[str]:
    return [key.strip() for key in str(keys).split(",") if key.strip()]


def _check(key: str, origin: str) -> None:
    *modifiers, last = key.split("+")
    for part in modifiers:
        if part not in _MODIFIERS:
            raise unknown(origin, "modifier", part, _MODIFIERS)
    if len(last) != 1 and last not in _NAMED:
        raise unknown(origin, "key", last, _NAMED)


_PUNCTUATION = ("slash", "backslash", "comma", "full_stop", "question_mark", "underscore", "minus", "plus")
_VALUES: list[str] = [key.value for key in Keys]
_NAMED = {key for key in _VALUES if "+" not in key and "<" not in key} | {*_PUNCTUATION}


def _refuse_clash(name: str, effective: Mapping[str, list[str]], origin: str) -> None:
    group = name.partition(".")[0]
    near = {*_TOGETHER} if group in _TOGETHER else {group, "app"}
    for other, keys in effective.items():
        both = set(keys) & set(effective[name])
        if both and other != name and other.partition(".")[0] in near:
            raise UsageError(
                f"{origin}: {min(both)} is the key of {other} already.",
                f"Choose another one, or change {other} too.",
            )


def _subclasses(kind: type[DOMNode]) -> Iterator[type[DOMNode]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)
