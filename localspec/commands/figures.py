"""The figures of the last answer as lines of text: what the screen's panel draws, for /stats and for screen readers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from localspec.chat.answer import Answer
from localspec.chat.figures import footer
from localspec.chat.numbers import length, milliseconds, percent, speed
from localspec.conversation import Conversation
from localspec.spec.stats import Segment, Stats

_PLAIN_ROUNDS = 16  # fewer say too little about the speed without speculation


def figures(chat: Conversation) -> list[str]:
    """The footer first: it is the answer in one line."""
    answer = chat.shown
    if answer is None:
        return ["No answer yet."]
    if not answer.rounds:
        return [footer(answer)]
    return [footer(answer), *_of_rounds(chat, answer), *_context(chat), *(each.sentence for each in answer.advice)]


def against_plain(now: Segment, plain: Stats) -> str:
    """How the method in effect compares with this session's rounds in which nothing was drafted."""
    seconds = plain.total_s - plain.draft_s
    speed_now = now.stats.tokens_per_second
    if not now.stats.drafts or speed_now is None:
        return "plain decoding"
    if plain.rounds < _PLAIN_ROUNDS or seconds <= 0:
        return "against plain: not measured yet"
    return (
        f"{now.method}: {speed_now * seconds / plain.emitted:.2f}x plain ({speed(plain.emitted / seconds)} tok/s)"
    )


def _of_rounds(chat: Conversation, answer: Answer) -> Iterator[str]:
    stats, segments = answer.stats, answer.segments
    yield f"speed: {against_plain(segments[-1], chat.plain)}"
    if stats.drafts:
        yield f"acceptance: {stats.accepted:,} of {stats.tested:,} tested tokens; {stats.drafted:,} were drafted"
    if stats.per_position:
        shares = (f"{percent(at.rate)} of {at.reached:,}" for at in stats.per_position)
        yield f"by position: {', '.join(shares)}"
    yield from _time(stats)
    if len(segments) > 1:
        yield from _segments(segments)


def _time(stats: Stats) -> Iterator[str]:
    if stats.total_s > 0:
        parts = (
            ("verify", stats.verify_s),
            ("draft", stats.draft_s),
            ("sample", stats.sample_s),
            ("rest", stats.rest_s),
        )
        shares = ", ".join(f"{name} {percent(seconds / stats.total_s)}" for name, seconds in parts)
        yield f"round: {milliseconds(stats.total_s / stats.rounds)}, {stats.rounds:,} of them: {shares}"


def _segments(segments: Sequence[Segment]) -> Iterator[str]:
    for number, run in enumerate(segments, 1):
        stats = run.stats
        said = f"segment {number}, {run.method}: {stats.emitted:,} tokens, {speed(stats.tokens_per_second)} tok/s"
        if stats.drafts:
            mean = length(stats.mean_acceptance_length)
            said += f", {percent(stats.acceptance_rate)} accepted, {mean} a round"
        yield said


def _context(chat: Conversation) -> Iterator[str]:
    if chat.context and chat.shown:
        used, room = chat.context
        reused = chat.shown.reused_tokens
        yield f"context: {used:,} of {room:,} tokens" + (
            f"; {reused:,} reused from the turn before" if reused else ""
        )
