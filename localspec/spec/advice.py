"""Does drafting pay here? The break-even advisor: what the controller has measured, as a curve and a sentence.

Knows the controller's figures; asks no model anything.
"""

from __future__ import annotations

from dataclasses import dataclass

from localspec.spec.controller import MARGIN, Controller

LENGTHS = range(1, 17)


@dataclass(frozen=True, slots=True)
class Advice:
    """`speedups[k - 1]` is the expected speed-up over plain decoding in rounds with a draft of k tokens; `best` is
    the k that gives the most, 0 where plain decoding is faster. `break_even` is the acceptance at which a single
    token pays for itself."""

    source: str
    speedups: tuple[float, ...] = ()
    best: int = 0
    break_even: float | None = None
    sentence: str = ""


def advise(controller: Controller, source: str) -> Advice:
    """About one drafter, over all kinds of evidence that it came up with, as often as each was seen."""
    costs, acceptance = controller.costs, controller.acceptance
    classes = {evidence: weight for evidence, weight in acceptance.classes(source).items() if weight > 0}
    if controller.measuring or not classes:
        return Advice(source, sentence=f"{source} has not been tried yet")
    longest, seen = LENGTHS[-1], sum(classes.values())
    drafted = acceptance.drafted(source, longest)
    curves = {evidence: acceptance.expected(source, evidence, longest) for evidence in classes}
    price = [costs.verify(n + 1) + costs.draft(source, n) for n in drafted]
    speedups = tuple(sum(classes[e] / seen * curves[e][k] for e in classes) / price[k] for k in LENGTHS)
    best = max(LENGTHS, key=lambda k: speedups[k - 1])
    each, break_even = costs.draft(source, 1), price[1] - 1
    if speedups[best - 1] >= MARGIN:
        return Advice(
            source, speedups, best, break_even, f"{source} gives {speedups[best - 1]:.1f}x here at k={best}"
        )
    if each > 0.1 and all(1 + drafted[k] < price[k] for k in LENGTHS):
        sentence = f"{source} costs {each:.1f} of a target step per token: it can't pay here"
    else:
        rate = sum(classes[e] / seen * (curves[e][1] - 1) for e in classes)
        sentence = f"{source} is right {rate:.0%} of the time, and a pass pays from {min(break_even, 9.99):.0%} on"
    return Advice(source, speedups, 0, break_even, sentence)
