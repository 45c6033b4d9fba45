"""Answers in the shapes of the OpenAI protocol: whole, in pieces, and what they say about themselves. Pure.

`timings` has llama-server's names, and like there `draft_n` and `draft_n_accepted` only where something was drafted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from localspec import __version__
from localspec.chat.answer import Answer
from localspec.serve.fields import Kind
from localspec.spec.types import Finish, LogProb, Round

Plain: TypeAlias = dict[str, Any]
Spell: TypeAlias = Callable[[int], bytes]  # the bytes of a token

_REASONS = {Finish.LENGTH: "length", Finish.CONTEXT: "length"}
_PREFIX = {"chat": ("chatcmpl-", "chat.completion"), "text": ("cmpl-", "text_completion")}


@dataclass(frozen=True, slots=True)
class Voice:
    """What every part of one reply has in common. `spell` is there where log-probabilities were asked for."""

    kind: Kind
    id: str
    created: int
    model: str
    spell: Spell | None = None

    def whole(self, answer: Answer) -> Plain:
        text, reason = answer.text, finish_reason(answer)
        choice: Plain = {"index": 0, "finish_reason": reason, "logprobs": self._logprobs(answer.rounds, 0)}
        if self.kind == "chat":
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return self._head(stream=False) | {
            "choices": [choice],
            "usage": usage(answer),
            "timings": timings(answer),
        }

    def piece(self, text: str, rounds: Iterable[Round] = (), offset: int = 0, *, first: bool = False) -> Plain:
        """`offset`: characters of the answer before it."""
        return self._part(text, None, self._logprobs(rounds, offset), first=first)

    def last(self, answer: Answer) -> Plain:
        return self._part(answer.tail, finish_reason(answer), None) | {"timings": timings(answer)}

    def counted(self, answer: Answer) -> Plain:
        """The extra event that `include_usage` asks for."""
        return self._head(stream=True) | {"choices": [], "usage": usage(answer)}

    def bare(self) -> Plain:
        return self._head(stream=True) | {"choices": []}

    def _part(self, text: str, reason: str | None, logprobs: Plain | None, *, first: bool = False) -> Plain:
        choice: Plain = {"index": 0, "finish_reason": reason, "logprobs": logprobs}
        if self.kind == "chat":
            delta: Plain = {"role": "assistant"} if first else {}
            choice["delta"] = delta | ({"content": text} if text or first else {})
        else:
            choice["text"] = text
        return self._head(stream=True) | {"choices": [choice]}

    def _head(self, *, stream: bool) -> Plain:
        name = _PREFIX[self.kind][1] + (".chunk" if stream and self.kind == "chat" else "")
        return {
            "id": _PREFIX[self.kind][0] + self.id,
            "object": name,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": f"localspec-{__version__}",
        }

    def _logprobs(self, rounds: Iterable[Round], offset: int) -> Plain | None:
        if self.spell is None:
            return None
        likely = [each for made in rounds for each in made.logprobs]
        return (_chat if self.kind == "chat" else _text)(likely, self.spell, offset)


def finish_reason(answer: Answer) -> str:
    return _REASONS.get(answer.finish or Finish.STOP, "stop")


def usage(answer: Answer) -> Plain:
    written = len(answer.token_ids)
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": written,
        "total_tokens": answer.prompt_tokens + written,
        "prompt_tokens_details": {"cached_tokens": answer.reused_tokens},
    }


def timings(answer: Answer) -> Plain:
    stats = answer.stats
    found = {"cache_n": answer.reused_tokens}
    found |= _rates("prompt", answer.prompt_tokens - answer.reused_tokens, answer.prefill_s or 0.0)
    found |= _rates("predicted", len(answer.token_ids), answer.decode_s or 0.0)
    if stats.drafted:
        found |= {"draft_n": stats.drafted, "draft_n_accepted": stats.accepted}
    return found


def event(plain: Plain) -> bytes:
    """One server-sent event. ASCII only, since some clients take other separators for the end of a line."""
    return b"data: " + json.dumps(plain, separators=(",", ":")).encode() + b"\n\n"


def _rates(name: str, n: int, seconds: float) -> Plain:
    return {
        f"{name}_n": n,
        f"{name}_ms": 1000 * seconds,
        f"{name}_per_token_ms": 1000 * seconds / n if n else None,
        f"{name}_per_second": n / seconds if seconds else None,
    }


def _chat(likely: list[LogProb], spell: Spell, _offset: int) -> Plain:
    return {"content": [_named(p.token, p.logprob, spell) | {"top_logprobs": _top(p, spell)} for p in likely]}


def _top(likely: LogProb, spell: Spell) -> list[Plain]:
    return [_named(token, p, spell) for token, p in likely.top]


def _named(token: int, logprob: float, spell: Spell) -> Plain:
    raw = spell(token)
    return {"token": raw.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(raw)}


def _text(likely: list[LogProb], spell: Spell, offset: int) -> Plain:
    texts = [spell(p.token).decode("utf-8", "replace") for p in likely]
    return {
        "tokens": texts,
        "token_logprobs": [p.logprob for p in likely],
        "top_logprobs": [{spell(t).decode("utf-8", "replace"): q for t, q in p.top} for p in likely],
        "text_offset": list(_offsets(texts, offset)),
    }


def _offsets(texts: Iterable[str], offset: int) -> Iterator[int]:
    for text in texts:
        yield offset
        offset += len(text)
