"""The proof behind `localspec verify`: on the loaded models, every method writes the target's text and follows its
distribution. The same prompts, seeds and tests each time. Knows no terminal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

from localspec.chat.message import Message
from localspec.engine.draws import Context, Effort, K, Trial, reader, trials
from localspec.engine.identity import Difference, compare, greedy, text
from localspec.engine.loaded import Loaded
from localspec.engine.messages import Generate
from localspec.engine.numerics import numerics
from localspec.engine.prompts import PROMPTS
from localspec.errors import LocalspecError
from localspec.spec.numerics import Numerics
from localspec.spec.rules import is_lossy
from localspec.spec.types import Round, Token

_LENGTH = 8  # tokens drafted per round
_PLACES = 4  # in each answer, looked at for a draft
LEVEL = 1e-4  # the chance that a correct rule fails the whole proof


@dataclass(frozen=True, slots=True)
class Plan:
    prompts: int
    tokens: int  # of each answer
    effort: Effort


FULL = Plan(len(PROMPTS), 48, Effort(places=2, draws=8000, whole=2500, proposals=250))
QUICK = Plan(2, 24, Effort(places=1, draws=1500, whole=500, proposals=60))


@dataclass(frozen=True, slots=True)
class MethodProof:
    method: str
    answers: int
    tokens: int
    drafted: int
    accepted: int
    differences: tuple[Difference, ...]
    trials: tuple[Trial, ...]

    def failed_trials(self, limit: float) -> list[Trial]:
        return [trial for trial in self.trials if trial.p < limit]

    def passed(self, limit: float, *, strict: bool) -> bool:
        wrong = [d for d in self.differences if strict or d.verdict == "BUG"]
        return not wrong and not self.failed_trials(limit)


@dataclass(frozen=True, slots=True)
class Proof:
    """`limit` is what a test's p-value must reach: LEVEL shared among all tests."""

    numerics: Numerics | None
    strict: bool
    verifier: str
    methods: tuple[MethodProof, ...]
    unavailable: tuple[tuple[str, str], ...]
    seconds: float

    @property
    def limit(self) -> float:
        return LEVEL / max(1, sum(len(method.trials) for method in self.methods))

    @property
    def lossy(self) -> bool:
        """The rule was asked to change the text, so there is nothing to pass."""
        return is_lossy(self.verifier)

    @property
    def passed(self) -> bool:
        return not self.lossy and all(method.passed(self.limit, strict=self.strict) for method in self.methods)


def prove(
    loaded: Loaded,
    plan: Plan,
    *,
    methods: Sequence[str] | None = None,
    draft_tokens: int | None = None,
    verifier: str = "block",
    tell: Callable[[str], None] = lambda text: None,
) -> Proof:
    """`tell` hears what is being done. Without `methods`, all that work with what is loaded."""
    started = perf_counter()
    for method in methods or ():
        if method not in loaded.drafting.methods:
            reason = loaded.drafting.reasons.get(method, "it is not available")
            raise LocalspecError(f"There is nothing to prove for {method!r}: {reason}.", "Leave --method out.")
    tell("numerics of the target")
    loaded.target.info = replace(loaded.target.info, numerics=numerics(loaded.target, deep=True))
    loaded.choose("off", None, verifier)
    tell("plain decoding")
    prompts = _prompts(loaded, plan)
    plain = [greedy(loaded, prompt, plan.tokens) for prompt in prompts]
    contexts, read = _open_places(prompts, plain), reader(loaded.decoder)
    proofs = []
    for method in methods or loaded.drafting.methods:
        tell(f"{method}: greedy text")
        answers, differences = _greedy(loaded, method, prompts, plain, plan, draft_tokens)
        tell(f"{method}: draws")
        loaded.choose(method, K)
        done = tuple(trials(loaded.decoder, read, contexts, plan.effort))
        proofs.append(_summary(method, answers, differences, done))
    return Proof(
        numerics=loaded.info.numerics,
        strict=loaded.numerics == "strict",
        verifier=verifier,
        methods=tuple(proofs),
        unavailable=() if methods else tuple(loaded.drafting.reasons.items()),
        seconds=perf_counter() - started,
    )


def _prompts(loaded: Loaded, plan: Plan) -> list[list[Token]]:
    """Those that fit, with room for an answer."""
    asked = [loaded.prompt(Generate(0, messages=(Message("user", words),))).ids for words in PROMPTS]
    fitting = [prompt for prompt in asked if len(prompt) + plan.tokens + K < loaded.target.n_ctx]
    if not fitting:
        raise LocalspecError("The context is too small for the proof.", "Load the model with a larger --n-ctx.")
    return fitting[: plan.prompts]


def _greedy(
    loaded: Loaded,
    method: str,
    prompts: list[list[Token]],
    plain: list[list[Round]],
    plan: Plan,
    draft_tokens: int | None,
) -> tuple[list[list[Round]], tuple[Difference, ...]]:
    # A method that is left to decide would draft little where it does not pay, and prove little.
    loaded.choose(method, draft_tokens or (None if method == "auto" else _LENGTH))
    answers = []
    differences = []
    for number, (prompt, wanted) in enumerate(zip(prompts, plain, strict=True), 1):
        answers.append(greedy(loaded, prompt, plan.tokens))
        if found := compare(loaded, number, prompt, text(wanted), answers[-1]):
            differences.append(found)
    return answers, tuple(differences)


def _summary(
    method: str, answers: list[list[Round]], differences: tuple[Difference, ...], done: tuple[Trial, ...]
) -> MethodProof:
    rounds = [round for answer in answers for round in answer]
    return MethodProof(
        method=method,
        answers=len(answers),
        tokens=sum(len(round.emitted) for round in rounds),
        drafted=sum(len(round.drafted) for round in rounds),
        accepted=sum(round.accepted for round in rounds),
        differences=differences,
        trials=done,
    )


def _open_places(prompts: list[list[Token]], plain: list[list[Round]]) -> list[Context]:
    """Texts after which the target is not sure what comes: there a wrong rule shows. A few after each prompt, one
    prompt after the other, so that little is read twice."""
    found: list[Context] = []
    for prompt, rounds in zip(prompts, plain, strict=True):
        tokens = text(rounds)
        sure = [abs(math.exp(each.logprob) - 0.5) for done in rounds for each in done.logprobs]
        found += [(*prompt, *tokens[:i]) for i in sorted(range(len(sure)), key=sure.__getitem__)[:_PLACES]]
    return found
