"""What arrives of one answer: lines of a stream in, engine events out, and at the end what is known about it.

A localspec sends rounds as they were; from others come pieces of text, each shown as a round of the server's in
which nothing was seen to be drafted. Knows no connection.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

from localspec.chat.message import Piece
from localspec.chat.reported import Reported
from localspec.engine.messages import Emitted, Event, Finished, Prefill
from localspec.engine.remote.counters import of_timings
from localspec.engine.remote.failures import Unreachable, in_error
from localspec.engine.remote.site import SERVER, Site
from localspec.engine.wire import of_plain
from localspec.spec.types import Finish, Round

_UNKNOWN = -1  # the id of a token that arrives as text
_OPEN, _CLOSE = "<think>", "\n</think>\n\n"
_REASONS = {"length": Finish.LENGTH}


class Hearing:
    """`reason` is None until the server has said why the answer ended."""

    def __init__(self, site: Site, turn: int) -> None:
        self.site, self.turn = site, turn
        self.tokens: list[int] = []
        self.reason: Finish | None = None
        self.done = False  # nothing more will come
        self._started = self._last = perf_counter()
        self._first: float | None = None
        self._read: tuple[int, int] | None = None  # tokens of the prompt, and those of them that were cached
        self._ending: Finished | None = None
        self._earlier = 0  # tokens of this answer that the last request began with
        self._timings: Mapping[str, Any] = {}
        self._usage: Mapping[str, Any] = {}
        self._thinking = False

    @property
    def begun(self) -> bool:
        """Has the last request given anything?"""
        return len(self.tokens) > self._earlier

    @property
    def counted(self) -> int | None:
        """Tokens of the answer, as the server counts them."""
        found = self._usage.get("completion_tokens", self._timings.get("predicted_n"))
        return found if isinstance(found, int) else None

    def again(self) -> None:
        """Another request goes on with what was written so far."""
        self._earlier, self._ending, self.reason, self.done = len(self.tokens), None, None, False

    def take(self, line: str) -> Iterator[Event]:
        """Raises Unreachable for an error in mid-stream, and for what is no answer."""
        if not line.startswith("data:"):
            return  # a comment that says that the server lives, or the name of an event
        text = line.removeprefix("data:").strip()
        if text == "[DONE]":
            self.done = True
            return
        try:
            chunk = json.loads(text)
            yield from self._understood(chunk)
        except (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
            raise Unreachable(f"{self.site.address.base} sent something that is no answer.") from None

    def finished(self, reason: Finish, seed: int, reported: Reported | None) -> Finished:
        """The end of it; times are the server's where it says them, and include the network where it doesn't."""
        now = perf_counter()
        first = self._first or now
        read, reused = self._read or (0, 0)
        ended = Finished(
            turn=self.turn,
            reason=reason,
            seed=seed,
            prompt_tokens=max(0, read - self._earlier),
            reused_tokens=reused,
            prefill_s=_seconds(self._timings, "prompt_ms", first - self._started),
            ttft_s=first - self._started if self._first else None,
            decode_s=_seconds(self._timings, "predicted_ms", now - first),
            total_s=now - self._started,
            environment=self.site.environment,
            reported=reported,
        )
        if (said := self._ending) is None:
            return ended
        kept = replace(said, ttft_s=ended.ttft_s, total_s=ended.total_s)
        if self._earlier:
            kept = replace(kept, prompt_tokens=said.prompt_tokens - self._earlier, decode_s=ended.decode_s)
        return kept

    def reported(self) -> Reported | None:
        """What the answer itself says about drafts; a localspec's rounds say it all."""
        if self.site.kind == "localspec":
            return None
        if self._timings:
            return of_timings(self._timings, self.counted)
        return Reported(self.site.kind if self.site.kind != "other" else SERVER, self.counted)

    def _understood(self, chunk: Any) -> Iterator[Event]:
        if "error" in chunk:
            raise Unreachable(f"{self.site.address.base}: {in_error(chunk, self.site.address)}")
        self._timings = chunk.get("timings") or self._timings
        if usage := chunk.get("usage"):
            self._usage = usage
            details = usage.get("prompt_tokens_details") or {}
            self._read = int(usage["prompt_tokens"]), int(details.get("cached_tokens") or 0)
        if own := chunk.get("localspec"):
            yield from self._own(of_plain(own, self.turn, self.site.environment))
        for choice in chunk.get("choices") or ():
            if not own and (text := self._text(choice)):
                yield self._piece(text)
            if reason := choice.get("finish_reason"):
                self.reason = self._why(reason)

    def _own(self, event: Prefill | Emitted | Finished) -> Iterator[Event]:
        match event:
            case Prefill():
                self._read = event.total + 1, event.reused
                yield event
            case Emitted():
                self._first = self._first or perf_counter()
                self.tokens += [piece.token for piece in event.pieces]
                yield event
            case Finished():
                self._ending = event

    def _text(self, choice: Mapping[str, Any]) -> str:
        """Some servers send thoughts apart; they come back to where the model wrote them."""
        delta = choice.get("delta") or {}
        thought = delta.get("reasoning_content") or delta.get("reasoning") or ""
        said = delta.get("content") or choice.get("text") or ""
        text = ""
        if thought:
            text += thought if self._thinking else f"{_OPEN}{thought}"
            self._thinking = True
        if said:
            text += f"{_CLOSE}{said}" if self._thinking else said
            self._thinking = False
        return text

    def _piece(self, text: str) -> Emitted:
        now = perf_counter()
        took = now - self._last
        self._first, self._last = self._first or now, now
        self.tokens.append(_UNKNOWN)
        made = Round(SERVER, "off", (), 0, (_UNKNOWN,), (), (), 0, 0.0, took, 0.0, took)
        return Emitted(self.turn, (made,), (Piece(_UNKNOWN, text, "plain"),))

    def _why(self, reason: str) -> Finish:
        if self._ending:
            return self._ending.reason
        return _REASONS.get(reason, Finish.STOP)


def _seconds(timings: Mapping[str, Any], name: str, otherwise: float) -> float:
    found = timings.get(name)
    return found / 1000 if isinstance(found, int | float) else otherwise
