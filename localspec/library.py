"""localspec as a library: load a target (and a draft), ask, read the rounds. docs/library.md has the page for it.

The engine of `localspec run`, in this process. Notices come as warnings, failures as exceptions.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from localspec.chat.answer import Answer
from localspec.chat.message import Message
from localspec.config import Config
from localspec.engine.engine import Engine
from localspec.engine.messages import Emitted, Event, Failed, Finished, Generate, Load, Notice, Ready
from localspec.errors import LocalspecError
from localspec.methods import canonical
from localspec.model import ModelInfo, ModelSpec
from localspec.spec.settings import Sampling


class Model:
    """A loaded target with its draft. Use it in a `with`, or close it; one thread at a time.

    Raises ModelLoadError or UsageError as the command line does. Other keyword arguments are fields of ModelSpec.
    With `corpus`, a folder, answers are kept there as token ids, and the suffix drafter draws on them.
    """

    def __init__(self, target: str, draft: str | None = None, *, corpus: str | None = None, **spec: Any) -> None:
        self._ready: Ready | None = None
        self._answer: Answer | None = None
        self._on_text: Callable[[str], object] = str
        self._turn = 0
        self._engine = Engine(self._take)
        kept = Config().remember_tokens if corpus else 0
        self._engine.handle(Load(ModelSpec(target, **spec), ModelSpec(draft) if draft else None, corpus, kept))

    @property
    def info(self) -> ModelInfo:
        return self._loaded.target

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods that work with what is loaded."""
        return self._loaded.methods

    @property
    def reasons(self) -> dict[str, str]:
        """Why the other methods don't."""
        return dict(self._loaded.reasons)

    def ask(
        self,
        prompt: str | Sequence[Message],
        *,
        method: str = "auto",
        on_text: Callable[[str], object] = str,
        sampling: Sampling | None = None,
        **options: Any,
    ) -> Answer:
        """One answer to a user's message, or to a conversation. `on_text` gets the text while it is written;
        `options` are fields of Generate (max_tokens, draft_tokens, stop, logprobs, ...)."""
        messages = (Message("user", prompt),) if isinstance(prompt, str) else tuple(prompt)
        self._turn += 1
        self._answer, self._on_text = Answer(canonical(method)), on_text
        self._engine.handle(
            Generate(self._turn, messages, sampling=sampling or Sampling(), method=self._answer.method, **options)
        )
        return self._answer

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _loaded(self) -> Ready:
        assert self._ready is not None, "a load that fails raises"
        return self._ready

    def _take(self, event: Event) -> None:
        match event:
            case Ready():
                self._ready = event
            case Emitted() if self._answer:
                self._on_text(self._answer.extend(event.rounds, event.pieces, event.names))
            case Finished() if self._answer:
                self._answer.end(event)
            case Notice():
                warnings.warn(event.text, stacklevel=2)
            case Failed():
                raise LocalspecError(event.message, event.hint)
