"""The sampling settings and their ranges. Pure data: the mathematics is in sampling.py."""

from __future__ import annotations

import math
from dataclasses import dataclass

from localspec.errors import SamplingError

SEED_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How the target's distribution is transformed before a token is drawn. Defaults and order are llama.cpp's.

    `temperature` 0 takes the most likely token. `top_k` 0, `top_p` 1 and `min_p` 0 switch a filter off; the
    penalties are neutral at 1, 0 and 0, and look at the last `penalty_last_n` tokens, prompt included
    (0: off, -1: the whole context). `seed` None lets the engine choose one, which it then reports.
    """

    temperature: float = 0.8
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    repeat_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    banned: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        _within("--temperature", self.temperature, 0, 100)
        _within("--top-k", self.top_k, 0, 2**31 - 1)
        _within("--top-p", self.top_p, 0, 1, open_low=True)
        _within("--min-p", self.min_p, 0, 1)
        _within("--repeat-penalty", self.repeat_penalty, 0, 100, open_low=True)
        _within("--presence-penalty", self.presence_penalty, -100, 100)
        _within("--frequency-penalty", self.frequency_penalty, -100, 100)
        _within("--penalty-last-n", self.penalty_last_n, -1, 2**31 - 1)
        if self.seed is not None:
            _within("--seed", self.seed, 0, SEED_MAX)
        for _, bias in self.logit_bias:
            _within("--logit-bias", bias, -math.inf, 1000)
        self.check(2**31)

    def check(self, n_vocab: int) -> None:
        """Raises SamplingError for a biased or banned token that a vocabulary of this size does not have."""
        for token, _ in self.logit_bias:
            _within("The token of --logit-bias", token, 0, n_vocab - 1)
        for token in self.banned:
            _within("--ban-token", token, 0, n_vocab - 1)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0 or self.top_k == 1

    @property
    def penalised(self) -> bool:
        neutral = self.repeat_penalty == 1 and self.presence_penalty == 0 and self.frequency_penalty == 0
        return not neutral and self.penalty_last_n != 0


def _within(flag: str, value: float, low: float, high: float, *, open_low: bool = False) -> None:
    if low <= value <= high and not (open_low and value == low):
        return
    above = "above" if open_low else "at least"
    raise SamplingError(
        f"{flag} is {_number(value)}.", f"It must be {above} {_number(low)} and at most {_number(high)}."
    )


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"
