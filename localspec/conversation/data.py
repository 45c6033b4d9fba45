"""What a conversation is asked with, and what it says to the user besides answers. Plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from localspec.chat.session import Node
from localspec.conversation.alternatives import When
from localspec.spec.settings import Sampling

DRAFT_LENGTHS = (None, 1, 2, 3, 4, 6, 8, 12, 16)  # None: automatic
OFF = "off"


@dataclass(frozen=True, slots=True)
class Options:
    """`title` names the model for people: the pair's title or the file's name. Names inside of files are often
    those of a training run."""

    title: str
    method: str
    draft_tokens: int | None  # None: chosen each round
    sampling: Sampling
    verifier: str = "block"
    lookup: tuple[int, int] = (2, 32)
    max_tokens: int | None = None
    system: str | None = None
    stop: tuple[str, ...] = ()
    alternatives: When = "view"
    recommended: Mapping[str, float] = field(default_factory=dict)  # sampling, by the authors of the model


@dataclass(frozen=True, slots=True)
class Note:
    """Something said to the user in the transcript, after the node `after`."""

    id: int
    after: Node
    text: str
    hint: str = ""
    error: bool = False


@dataclass(frozen=True, slots=True)
class Returned:
    """A prompt that got no answer and goes back to the editor; it was an edit of `instead_of`, if any."""

    text: str
    instead_of: Node | None
