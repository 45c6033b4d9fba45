"""Which drafters work with what is loaded, how each is built, and why the others don't.

The only place that knows every drafter. One that is not available has a reason, never silence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from localspec.errors import LocalspecError
from localspec.llama.drafters.dflash import DFlash
from localspec.llama.drafters.eagle3 import Eagle3
from localspec.llama.drafters.mtp import Mtp
from localspec.llama.model import LlamaModel
from localspec.methods import installed
from localspec.model import ModelSpec
from localspec.spec.advice import Advice, advise
from localspec.spec.controller import LADDER, Controller
from localspec.spec.corpus import Corpus
from localspec.spec.drafters.auto import Auto
from localspec.spec.drafters.cascade import Cascade
from localspec.spec.drafters.lookup import LONGEST, SHORTEST, Lookup
from localspec.spec.drafters.model import ModelDrafter
from localspec.spec.drafters.off import Off
from localspec.spec.drafters.suffix import Suffix
from localspec.spec.drafters.translated import TranslatedDrafter
from localspec.spec.length import Fixed, Length
from localspec.spec.types import Drafter

NO_DRAFT = "no draft model is loaded; name one with --draft FILE"
NO_HEAD = "no {} head is loaded; name one with --draft FILE"


ON_MODEL = ("draft", "translated", "cascade")
HEADS: dict[str, Callable[[LlamaModel, ModelSpec], Drafter]] = {"mtp": Mtp, "eagle3": Eagle3, "dflash": DFlash}


@dataclass(frozen=True, slots=True)
class Companion:
    """What was loaded beside the target: a `model` that drafts by `method`, or the `spec` of a head."""

    method: str
    spec: ModelSpec
    model: LlamaModel | None = None


@dataclass(slots=True)
class Drafting:
    """The drafters of one loaded target. Each is built when first used, and kept: its index or cache stays."""

    target: LlamaModel
    companion: Companion | None
    controller: Controller
    corpus: Corpus | None = None
    reasons: dict[str, str] = field(default_factory=dict)  # method -> why it is not available
    _makers: dict[str, Callable[[], Drafter]] = field(default_factory=dict)
    _built: dict[str, Drafter] = field(default_factory=dict)
    _lookup: tuple[int, int] = (SHORTEST, LONGEST)

    def __post_init__(self) -> None:
        self._makers = {"off": Off}
        if off := self.target.speculation_off:
            self.reasons = dict.fromkeys(("auto", "lookup", "suffix", *ON_MODEL, *HEADS), off)
            return
        self._makers["lookup"] = lambda: Lookup(*self._lookup)
        self._makers["suffix"] = lambda: Suffix(corpus=self.corpus)
        self._makers |= {name: point.load() for name, point in installed().items()}
        self.reasons = dict.fromkeys(ON_MODEL, NO_DRAFT) | {name: NO_HEAD.format(name) for name in HEADS}
        if self.target.mtp_off is not None:
            self.reasons["mtp"] = self.target.mtp_off
        elif self.companion is None or self.companion.method != "mtp":  # layers that the user named go first
            self._attach("mtp", lambda: Mtp(self.target))
        if self.companion is not None:
            self._accompany(self.companion)
        for name in self._makers:
            self.reasons.pop(name, None)

    def _attach(self, name: str, make: Callable[[], Drafter]) -> None:
        """Build a head now: one that can't be built is a reason from the start, not a surprise in mid-answer."""
        try:
            self._built[name] = head = make()
        except LocalspecError as error:
            self.reasons[name] = error.message
        else:
            self._makers[name] = lambda: head

    def _accompany(self, companion: Companion) -> None:
        target, name = self.target, companion.method
        if name in HEADS:
            self._attach(name, lambda: HEADS[name](target, companion.spec))
        elif (model := companion.model) is not None:
            if name == "draft":
                self._makers[name] = lambda: ModelDrafter(model, target.n_vocab, target.vocab.eog)
            else:
                self._makers[name] = lambda: TranslatedDrafter(model, target.n_vocab, target.vocab, model.vocab)
        if name in self._makers:
            self._makers["cascade"] = lambda: Cascade([self.get("suffix"), self.get(name)])

    @property
    def methods(self) -> tuple[str, ...]:
        """What the user can choose, the default first."""
        return tuple(self._makers) if "auto" in self.reasons else ("auto", *self._makers)

    @property
    def left_out(self) -> str | None:
        """Why a head that was named does not draft; None where there is none, or it does."""
        name = self.companion.method if self.companion else "off"
        return f"The head is left out: {self.reasons[name]}" if name in self.reasons else None

    @property
    def notices(self) -> Iterator[str]:
        """What the drafters so far have to say to the user: one that has something carries it as `notice`."""
        for drafter in self._built.values():
            if notice := getattr(drafter, "notice", None):
                yield notice

    @property
    def advice(self) -> tuple[Advice, ...]:
        """About each drafter of which anything was measured: whether it pays here."""
        found = (advise(self.controller, name) for name in self._makers if name != "off")
        return tuple(advice for advice in found if advice.speedups)

    def too_long(self, name: str, k: int) -> str | None:
        """What to tell someone who asks for longer drafts than the head behind this method can write."""
        of = self.companion.method if name == "cascade" and self.companion else name
        head = getattr(self._built.get(of), "head", None)
        return None if head is None else head.too_long(k)

    def get(self, name: str) -> Drafter:
        if name not in self._built:
            self._built[name] = self._makers[name]()
        return self._built[name]

    def look_up(self, matches: tuple[int, int]) -> None:
        """Use another range of match lengths; the index is built again when it differs."""
        if matches != self._lookup:
            self._lookup = matches
            self._built.pop("lookup", None)

    def use(self, name: str, k: int | None) -> tuple[Drafter, Length]:
        """The drafter and length policy of a method; `k` None leaves the length to the controller."""
        if name == "off" or k == 0:
            return self.get("off"), Fixed(0)
        if name == "auto":
            auto = Auto(list(self._members()), self.controller, longest=k or LADDER[-1])
            return auto, auto
        if k is not None:
            return self.get(name), Fixed(k)
        alone = Auto([self.get(name)], self.controller, name=name)
        return alone, alone

    def close(self) -> None:
        for drafter in self._built.values():
            drafter.close()

    def _members(self) -> Iterator[Drafter]:
        for name in self._makers:
            if name not in ("off", "cascade"):
                yield self.get(name)
