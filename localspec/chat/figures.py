"""One answer's figures under the names of the JSON contract (docs/architecture.md, section 7).

`localspec run --json`, the session export and the screen read the same functions, so that they can't disagree.
Seconds and plain ratios, never rounded; None where nothing was counted. Knows no file and no screen.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from localspec.chat import numbers
from localspec.chat.answer import Answer
from localspec.chat.reported import Reported
from localspec.spec.stats import Stats, by_drafter, inter_token_latency
from localspec.spec.types import Finish

_ENDED = {
    Finish.CANCELLED: "stopped",
    Finish.LENGTH: "length limit reached",
    Finish.CONTEXT: "context full",
}


def count(answer: Answer) -> int:
    """Tokens of the answer. A server counts its own: several may have come in one piece."""
    counted = answer.reported.tokens if answer.reported else None
    return len(answer.token_ids) if counted is None else counted


def tokens_per_second(answer: Answer) -> float | None:
    """Tokens over the decode phase; while it still runs, over the rounds so far."""
    if answer.decode_s:
        return count(answer) / answer.decode_s
    return answer.stats.tokens_per_second


def timings(answer: Answer) -> dict[str, Any]:
    p50, p95 = inter_token_latency(answer.rounds) or (None, None)
    return {
        "ttft_s": answer.ttft_s,
        "prefill_s": answer.prefill_s,
        "decode_s": answer.decode_s,
        "total_s": answer.total_s,
        "tokens_per_second": tokens_per_second(answer),
        "inter_token_latency_s": {"p50": p50, "p95": p95},
    }


def speculation(answer: Answer, method: str, verifier: str) -> dict[str, Any]:
    """`method` is the one that was asked for; `by_drafter` says who really proposed."""
    return {
        "method": method,
        "verifier": verifier,
        **counts(answer.stats),
        "by_drafter": {source: counts(stats) for source, stats in by_drafter(answer.rounds).items()},
        "advice": [asdict(advice) for advice in answer.advice],
        **({"server": asdict(answer.reported)} if answer.reported else {}),
    }


def counts(stats: Stats) -> dict[str, Any]:
    """`emitted = accepted + rounds - cut` holds in every one of these."""
    return {
        "rounds": stats.rounds,
        "emitted": stats.emitted,
        "drafted": stats.drafted,
        "tested": stats.tested,
        "accepted": stats.accepted,
        "cut": stats.cut,
        "acceptance_rate": stats.acceptance_rate,
        "mean_acceptance_length": stats.mean_acceptance_length,
        "per_position": [{"reached": at.reached, "accepted": at.accepted} for at in stats.per_position],
        "draft_s": stats.draft_s,
        "verify_s": stats.verify_s,
        "sample_s": stats.sample_s,
    }


def footer(answer: Answer) -> str:
    """One line for people: `stopped · 214 tokens · 92 tok/s · 61 % accepted · 2.9 a round · off → lookup`."""
    stats, speed = answer.stats, tokens_per_second(answer)
    parts = [_ENDED.get(answer.finish, "") if answer.finish else ""]
    parts.append("1 token" if count(answer) == 1 else f"{count(answer):,} tokens")
    if speed is not None:
        parts.append(f"{numbers.speed(speed)} tok/s")
    if stats.acceptance_rate is not None:
        parts.append(f"{numbers.percent(stats.acceptance_rate)} accepted")
    if stats.mean_acceptance_length is not None and stats.drafts:
        parts.append(f"{numbers.length(stats.mean_acceptance_length)} a round")
    if answer.reported:
        parts.append(_of_server(answer.reported))
    parts.append(" → ".join(run.method for run in answer.segments) or answer.method)
    return " · ".join(part for part in parts if part)


def _of_server(reported: Reported) -> str:
    """Accepted of drafted, as the server counts them: not the same ratio as our own."""
    if reported.acceptance is not None:
        return f"{reported.acceptance:.0%} of drafts accepted, says {reported.server}".replace("%", " %")
    return f"{reported.server} drafted nothing" if reported.drafted == 0 else "acceptance unknown"
