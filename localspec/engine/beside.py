"""What is loaded beside the target: a draft model or head, and this user's earlier answers.

Neither is needed: where one can't be had, the chat goes on without it and a sentence says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from localspec import gguf
from localspec.engine.drafting import HEADS, Companion
from localspec.engine.messages import Load
from localspec.engine.placing import load_lower
from localspec.errors import LoadCancelled, LocalspecError
from localspec.llama import workers
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.pairing import pair
from localspec.spec.corpus import Corpus
from localspec.spec.types import Tokens


def companion_of(
    command: Load, target: LlamaModel, progress: Callable[[float], bool]
) -> tuple[Companion | None, tuple[str, ...]]:
    """What drafts beside the target, or the reason why nothing does: the target is of use without it."""
    if command.draft is None:
        return None, ()
    spec = replace(command.draft, n_ctx=command.draft.n_ctx or target.n_ctx)
    try:
        pairing = pair(gguf.read(target.info.path), spec.path)
        if pairing.method is None:
            return None, (f"The draft is left out: {pairing.reason}. {pairing.hint}".strip(),)
        if pairing.method in HEADS:
            return Companion(pairing.method, spec), pairing.remarks
        with workers.only_here():
            model, notes = _draft(spec, progress)
    except LoadCancelled:
        raise
    except LocalspecError as error:
        return None, (f"The draft is left out. {error.message} {error.hint}".strip(),)
    return Companion(pairing.method, spec, model), (*pairing.remarks, *notes)


def _draft(spec: ModelSpec, progress: Callable[[float], bool]) -> tuple[LlamaModel, tuple[str, ...]]:
    """In host memory where the GPU turns out to have no room for what was planned."""
    load = partial(LlamaModel.load, on_progress=progress, role="draft")
    if not spec.gpu_layers:
        return load(spec), ()
    model, layers = load_lower(load, spec, (spec.gpu_layers, 0))
    return model, () if layers else ("The draft is in host memory: the GPU had no room for it.",)


def earlier_of(command: Load, target: LlamaModel) -> tuple[Earlier | None, tuple[str, ...]]:
    """This user's earlier answers in this vocabulary, where they may be kept."""
    vocabulary = gguf.read(target.info.path).vocabulary if command.corpus else None
    if vocabulary is None or not vocabulary.fingerprint:
        return None, ()
    path = Path(command.corpus or "", vocabulary.fingerprint)
    try:
        corpus = Corpus.load(path, vocabulary.fingerprint, target.n_vocab, limit=command.corpus_tokens)
    except LocalspecError as error:
        return None, (f"{error.message} {error.hint}",)
    return Earlier(corpus, path), ()


@dataclass(slots=True)
class Earlier:
    """Earlier answers and the file that they are kept in."""

    corpus: Corpus
    path: Path

    def remember(self, answer: Tokens) -> None:
        self.corpus.remember(answer)
        self.corpus.save(self.path)
