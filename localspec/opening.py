"""From what a user chose to what the engine is asked for, with the flags that the chat was started with.

The flags hold for every model that is chosen later, but for those that name files. Knows no screen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from localspec import catalog, settle
from localspec.config import Config
from localspec.conversation import Options
from localspec.engine.messages import Load
from localspec.errors import UsageError
from localspec.flags import AnswerFlags, ModelFlags, SamplingFlags, SpeculationFlags


@dataclass(frozen=True, slots=True)
class Choice:
    """A `pair` by name, or the path of a `target`; the path of the `draft` or head to load beside it, None for none;
    the `method` to begin with, None for the configured one."""

    pair: str | None = None
    target: str | None = None
    draft: str | None = None
    method: str | None = None


Chosen = Callable[[Choice], tuple[Load, Options]]


def named(name: str) -> Choice:
    """What a person means by one word: the path of a file, else the name of a pair. Raises UsageError for a file that
    is not there: the model that is loaded would go for nothing."""
    if not name.lower().endswith(".gguf") and len(Path(name).parts) < 2:
        return Choice(pair=name)
    path = os.path.expanduser(name)
    if not os.path.isfile(path):
        raise UsageError(f"There is no file {name}.", "localspec models lists the pairs and files that there are.")
    return Choice(target=path)


@dataclass(frozen=True, slots=True)
class Opening:
    model: ModelFlags
    speculation: SpeculationFlags
    sampling: SamplingFlags
    answer: AnswerFlags

    def chosen(self, choice: Choice) -> tuple[Load, Options]:
        """Raises LocalspecError for a pair whose target is not here. Its draft need not be: it is a choice."""
        pair = catalog.find(choice.pair) if choice.pair else None
        model = replace(self.model, pair=choice.pair, target=None if pair else choice.target, draft=None)
        settings, apart = settle.settle(model, self.speculation, self.sampling, self.answer)
        target = str(catalog.locate(pair.target, pair.name)) if pair else choice.target
        load, title = settle.load(settings, apart | {"target": target, "draft": choice.draft}, remember=True)
        found = options(settings, apart, pair.title if pair else title, settle.speculation(settings))
        return load, replace(found, method=choice.method) if choice.method else found


def options(settings: Config, apart: dict[str, Any], title: str, drafting: dict[str, Any]) -> Options:
    """`drafting`: as `settle.speculation` gives it."""
    return Options(
        title,
        sampling=settle.sampling(settings, apart),
        system=settings.system,
        max_tokens=settings.max_tokens,
        stop=tuple(apart["stop"] or ()),
        alternatives=settings.alternatives,
        recommended=settle.recommended(settings, apart),
        **drafting,
    )
