"""The sampling settings as a list of fields with a name, a sentence and a way to read a value that somebody typed.

`/set` and the form on the screen are made from it. A field that is added to spec/settings.Sampling appears in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, get_args, get_origin, get_type_hints

from localspec.errors import SamplingError, UnknownName
from localspec.flags import SamplingFlags
from localspec.spec.settings import Sampling

_KINDS = get_type_hints(Sampling)
_DEFAULT = Sampling()
_NUMBERS = (int, float)
_NOTHING = ("", "none", "random", "default")


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    help: str
    default: int | float | None
    kind: type  # int or float

    def read(self, text: str) -> int | float | None:
        """What `text` says; raises SamplingError with what is allowed."""
        text = text.strip()
        if text.lower() in _NOTHING:
            return self.default
        try:
            value: int | float = self.kind(text)
        except ValueError:
            wanted = "a whole number" if self.kind is int else "a number"
            raise SamplingError(f"{self.name} is {text!r}.", f"It must be {wanted}.") from None
        try:
            changed(_DEFAULT, {self.name: value})
        except SamplingError as error:
            raise SamplingError(f"{self.name} is {text}.", error.hint) from None
        return value

    def shown(self, value: object) -> str:
        if value is None:
            return "random"
        return f"{value:g}" if isinstance(value, float) else str(value)


def _fields() -> tuple[Field, ...]:
    flags = get_type_hints(SamplingFlags, include_extras=True)
    found = []
    for each in fields(Sampling):
        hint = _KINDS[each.name]
        kinds = (hint,) if get_origin(hint) is tuple else get_args(hint) or (hint,)
        if numbers := [kind for kind in _NUMBERS if kind in kinds]:
            option: Any = flags[each.name].__metadata__[0]
            found.append(Field(each.name, option.help, getattr(_DEFAULT, each.name), numbers[0]))
    return tuple(found)


FIELDS = {each.name: each for each in _fields()}


def field(name: str) -> Field:
    """By its name in the config file or as a flag."""
    plain = name.removeprefix("--").replace("-", "_").lower()
    if plain not in FIELDS:
        raise UnknownName("sampling setting", name, FIELDS)
    return FIELDS[plain]


def changed(sampling: Sampling, values: Mapping[str, Any]) -> Sampling:
    return replace(sampling, **values)
