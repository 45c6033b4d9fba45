"""What is compared: how the model is loaded, and how it is asked. Pure data and the product of the choices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from localspec.errors import UsageError
from localspec.model import ModelSpec

PLAIN = "off"


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings that need the model to be loaded again. None leaves them as they were asked for."""

    flash_attn: str | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    threads: int | None = None
    n_batch: int | None = None

    def of(self, spec: ModelSpec) -> ModelSpec:
        names = ("flash_attn", "cache_type_k", "cache_type_v", "threads", "n_batch")
        given = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(spec, **given)

    def __str__(self) -> str:
        cache = "/".join(dict.fromkeys(kind for kind in (self.cache_type_k, self.cache_type_v) if kind))
        words = [
            f"fa {self.flash_attn}" if self.flash_attn else "",
            cache,
            f"{self.threads} threads" if self.threads else "",
            f"batch {self.n_batch}" if self.n_batch else "",
        ]
        return " ".join(word for word in words if word)


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to answer. `draft_tokens` None leaves the length to the controller."""

    method: str = PLAIN
    draft_tokens: int | None = None
    verifier: str = "block"
    temperature: float = 0.0
    setup: Setup = Setup()

    @property
    def plain(self) -> bool:
        return self.method == PLAIN or self.draft_tokens == 0

    def baseline(self, first: Setup) -> Variant:
        """Plain decoding at this temperature, in the first setup: what a speed-up is measured against."""
        return Variant(temperature=self.temperature, setup=first)


def grid(
    methods: Sequence[str],
    draft_lengths: Sequence[int | None] = (None,),
    verifiers: Sequence[str] = ("block",),
    temperatures: Sequence[float] = (0.0,),
    setups: Sequence[Setup] = (Setup(),),
) -> tuple[Variant, ...]:
    """Every combination that differs from the others, plain decoding first for each load and temperature: speed and
    text are compared with it, so it is there whether it was named or not."""
    found: dict[Variant, None] = {}
    for setup, temperature in product(setups, temperatures):
        found[Variant(temperature=temperature, setup=setup)] = None
        for method, length, verifier in product(methods, draft_lengths, verifiers):
            variant = Variant(method, length, verifier, temperature, setup)
            if not variant.plain:
                found[variant] = None
    return tuple(found)


def labels(variants: Sequence[Variant]) -> dict[Variant, str]:
    """A short name for each: the method, and what differs among them."""
    parts = {
        variant: {
            "method": variant.method,
            "k": "" if variant.plain else f"k={variant.draft_tokens or 'auto'}",
            "verifier": "" if variant.plain else variant.verifier,
            "temperature": f"T={variant.temperature:g}",
            "setup": str(variant.setup),
        }
        for variant in variants
    }
    told = {name: {row[name] for row in parts.values()} for name in ("k", "verifier", "temperature", "setup")}
    # Plain decoding has no draft length, which tells nothing; a load that is as it was asked for is one of several.
    telling = [
        "method",
        *(name for name, found in told.items() if len(found if name == "setup" else found - {""}) > 1),
    ]
    return {variant: " ".join(row[name] for name in telling if row[name]) for variant, row in parts.items()}


def read_setups(text: str) -> tuple[Setup, ...]:
    """`on/q8_0,off/f16`: flash attention and the type of the cache (or of K and V: on/q8_0/f16) of each load."""
    return tuple(_setup(part.strip()) for part in text.split(","))


def _setup(text: str) -> Setup:
    flash, *kinds = text.split("/")
    if flash not in ("on", "off", "auto") or len(kinds) > 2 or not all(kinds):
        raise UsageError(
            f"--attention has {text!r}.", "Write flash attention and cache type: --attention on/q8_0,off/f16"
        )
    k = kinds[0] if kinds else None
    return Setup(flash, k, kinds[-1] if kinds else None)
