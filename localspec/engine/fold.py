"""Engine events folded into the answer they belong to; every interface uses this one function."""

from __future__ import annotations

from localspec.chat.answer import Answer
from localspec.engine.messages import Emitted, Finished


def apply(answer: Answer, event: Emitted | Finished) -> str:
    """Record the event; returns the text that it added."""
    if isinstance(event, Emitted):
        return answer.extend(event.rounds, event.pieces)
    answer.finish, answer.seed, answer.tail = event.reason, event.seed, event.tail
    answer.prompt_tokens, answer.reused_tokens = event.prompt_tokens, event.reused_tokens
    answer.prefill_s, answer.ttft_s = event.prefill_s, event.ttft_s
    answer.decode_s, answer.total_s = event.decode_s, event.total_s
    return event.tail
