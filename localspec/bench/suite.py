"""The prompts that are measured with: a suite of localspec's own, or a file of the user's. Knows no model.

A file has one JSON object per line with `category` and `turns` (or `prompt`), and `id` or Spec-Bench's `question_id`.
Spec-Bench's question file has these fields, so it is read as it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from localspec.errors import UnknownName, UsageError

OWN = Path(__file__).with_name("suite.jsonl")
_SHAPE = 'A line is like {"id": "mine-1", "category": "chat", "turns": ["Hello"]}.'


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a user says, turn by turn."""

    id: str
    category: str
    turns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suite:
    name: str  # of the file
    fingerprint: str  # sha256 of its bytes
    prompts: tuple[Prompt, ...]

    @property
    def categories(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(prompt.category for prompt in self.prompts))


def read(file: Path | None = None) -> Suite:
    """The suite in this file, or localspec's own. Raises UsageError that names the line."""
    path = file or OWN
    try:
        content = path.read_bytes()
        lines = content.decode("utf-8").split("\n")
    except OSError as error:
        raise UsageError(f"Cannot read the suite {path}: {error.strerror}.", _SHAPE) from None
    except UnicodeDecodeError:
        raise UsageError(f"The suite {path} is no UTF-8 text.", _SHAPE) from None
    prompts = [
        _prompt(line, f"{path}, line {number}", number) for number, line in enumerate(lines, 1) if line.strip()
    ]
    if not prompts:
        raise UsageError(f"The suite {path} is empty.", _SHAPE)
    _refuse_twins(prompts, path)
    return Suite(path.name, sha256(content).hexdigest(), tuple(prompts))


def chosen(suite: Suite, categories: Sequence[str] = (), most: int | None = None) -> tuple[Prompt, ...]:
    """The prompts of these categories (all, if none is named), at most `most` of each, in the order of the file."""
    for name in categories:
        if name not in suite.categories:
            raise UnknownName("category", name, suite.categories)
    wanted = [name for name in suite.categories if not categories or name in categories]
    return tuple(p for name in wanted for p in [p for p in suite.prompts if p.category == name][:most])


def _prompt(line: str, where: str, number: int) -> Prompt:
    try:
        entry = json.loads(line)
    except ValueError as error:
        raise UsageError(f"{where}: not JSON ({error}).", _SHAPE) from None
    if not isinstance(entry, dict):
        raise UsageError(f"{where}: not a JSON object.", _SHAPE)
    turns = entry.get("turns", [entry["prompt"]] if "prompt" in entry else None)
    if (
        not isinstance(turns, list)
        or not turns
        or not all(isinstance(text, str) and text.strip() for text in turns)
    ):
        raise UsageError(f"{where}: `turns` must be a list of texts, none of them empty.", _SHAPE)
    return Prompt(_named(entry, ("id", "question_id"), str(number), where), _category(entry, where), tuple(turns))


def _category(entry: dict[str, Any], where: str) -> str:
    return _named(entry, ("category",), "prompts", where)


def _named(entry: dict[str, Any], keys: Iterable[str], default: str, where: str) -> str:
    for key in keys:
        if key in entry:
            value = entry[key]
            if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
                raise UsageError(f"{where}: `{key}` must be a text or a whole number, not {value!r}.", _SHAPE)
            return str(value)
    return default


def _refuse_twins(prompts: Sequence[Prompt], path: Path) -> None:
    seen: set[str] = set()
    for prompt in prompts:
        if prompt.id in seen:
            raise UsageError(f"{path}: two prompts are called {prompt.id!r}.", "Give each prompt an id of its own.")
        seen.add(prompt.id)
