"""What one answer of one contestant came to: the row that every table, chart and comparison is folded from.

Plain data that goes to JSON and back. Seconds, never rounded but for the latencies. None where a contestant doesn't
say: other servers count less than our own loop does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from typing import Any

from localspec.chat.answer import Answer


@dataclass(frozen=True, slots=True)
class Task:
    """One turn of one prompt."""

    prompt: str
    category: str
    turn: int  # from 1

    def __str__(self) -> str:
        return self.prompt if self.turn == 1 else f"{self.prompt}, turn {self.turn}"


@dataclass(frozen=True, slots=True)
class Reply:
    """What a contestant says to a prompt. `latency` has (tokens, seconds) per round, in order."""

    text: str
    finish: str
    prompt_tokens: int
    reused_tokens: int
    tokens: int
    prefill_s: float | None
    ttft_s: float | None
    decode_s: float
    total_s: float
    latency: tuple[tuple[int, float], ...] = ()
    rounds: int | None = None
    drafted: int | None = None
    tested: int | None = None
    accepted: int | None = None
    cut: int | None = None
    positions: tuple[tuple[int, int], ...] = ()  # (reached, accepted) at each place of a draft
    draft_s: float | None = None
    verify_s: float | None = None
    sample_s: float | None = None
    widest: int | None = None  # the most rows that one pass had

    @property
    def digest(self) -> str:
        return sha256(self.text.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Sample:
    variant: str  # the label of the contestant
    task: Task
    repeat: int  # from 1
    reply: Reply

    @property
    def host_s(self) -> float | None:
        """What is left of the decode phase beside drafting, the target's passes and the rule."""
        r = self.reply
        if r.draft_s is None or r.verify_s is None or r.sample_s is None:
            return None
        return max(0.0, r.decode_s - r.draft_s - r.verify_s - r.sample_s)


def of_answer(answer: Answer) -> Reply:
    """Our own answers, by the definitions of docs/statistics.md."""
    stats = answer.stats
    assert answer.finish is not None and answer.decode_s is not None and answer.total_s is not None
    return Reply(
        text=answer.text,
        finish=answer.finish.value,
        prompt_tokens=answer.prompt_tokens,
        reused_tokens=answer.reused_tokens,
        tokens=len(answer.token_ids),
        prefill_s=answer.prefill_s,
        ttft_s=answer.ttft_s,
        decode_s=answer.decode_s,
        total_s=answer.total_s,
        latency=tuple((len(done.emitted), round(done.total_s, 6)) for done in answer.rounds),
        rounds=stats.rounds,
        drafted=stats.drafted,
        tested=stats.tested,
        accepted=stats.accepted,
        cut=stats.cut,
        positions=tuple((at.reached, at.accepted) for at in stats.per_position),
        draft_s=stats.draft_s,
        verify_s=stats.verify_s,
        sample_s=stats.sample_s,
        widest=max((len(done.drafted) + 1 for done in answer.rounds), default=None),
    )


def to_json(sample: Sample) -> dict[str, Any]:
    """Without the text: a report is made to be shown to others. Its digest says whether two are equal."""
    reply = asdict(sample.reply)
    del reply["text"]
    row = {"variant": sample.variant, **asdict(sample.task), "repeat": sample.repeat, "digest": sample.reply.digest}
    return row | reply


def from_json(row: Mapping[str, Any]) -> tuple[Sample, str]:
    """The sample and the digest of its text. Raises KeyError, TypeError or ValueError for anything else."""
    names = {field.name for field in fields(Reply)} - {"text"}
    values = {name: row[name] for name in names if name in row}
    values["latency"] = tuple((int(tokens), float(seconds)) for tokens, seconds in row["latency"])
    values["positions"] = tuple((int(reached), int(accepted)) for reached, accepted in row["positions"])
    task = Task(str(row["prompt"]), str(row["category"]), int(row["turn"]))
    return Sample(str(row["variant"]), task, int(row["repeat"]), Reply(text="", **values)), str(row["digest"])
