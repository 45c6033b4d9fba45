"""Other servers as contestants: anything that speaks the OpenAI chat API on a URL, asked with the same settings.

llama-server counts its drafts in `timings`, vLLM on /metrics; others don't say, and then there is no figure. Knows
no model and starts nothing.
"""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

from localspec.bench.runner import Gone
from localspec.bench.sample import Reply
from localspec.bench.subject import Limits
from localspec.chat.message import Message
from localspec.engine.remote.counters import of_metrics
from localspec.errors import LocalspecError, UsageError

_PATIENCE_S = 600.0
_BURST_S = 0.001  # pieces that come closer together than this come from one pass


@dataclass(frozen=True, slots=True)
class Site:
    """A server that answers: what it is, which model it serves, and what it says of its build."""

    url: str
    model: str
    kind: str  # llama-server | vllm | openai
    build: str = ""

    @property
    def told(self) -> dict[str, str]:
        """For a report that others read: llama-server names a model by its path, whose folders are private."""
        model = Path(self.model).name if Path(self.model).is_absolute() else self.model
        return asdict(self) | {"model": model}


def visit(url: str, model: str = "") -> Site:
    """Find out what answers there. Raises Gone where nothing does."""
    base = url.rstrip("/").removesuffix("/v1")
    names = [str(entry["id"]) for entry in _json(f"{base}/v1/models").get("data", []) if "id" in entry]
    if not model and len(names) != 1:
        listed = ", ".join(names[:8]) or "none"
        raise UsageError(f"{url} serves {len(names)} models: {listed}.", f"Name one: --peer-url {url}#MODEL")
    props = _optional(f"{base}/props")
    if "build_info" in props:
        return Site(base, model or names[0], "llama-server", str(props["build_info"]))
    if "vllm:" in _text(f"{base}/metrics", optional=True):
        return Site(base, model or names[0], "vllm", str(_optional(f"{base}/version").get("version", "")))
    return Site(base, model or names[0], "openai")


@dataclass(frozen=True, slots=True)
class Peer:
    """The Contestant of runner.py."""

    label: str
    site: Site
    limits: Limits
    temperature: float

    def ask(self, messages: Sequence[Message], seed: int) -> Reply:
        before = self._drafts()
        heard = _listen(
            self.site, body(self.site.kind, self.site.model, self.limits, self.temperature, messages, seed)
        )
        if not heard.finish:
            raise Gone(f"Its answer broke off after {len(heard.at)} pieces.")
        after = self._drafts()
        return reply(heard, {name: after[name] - before.get(name, 0) for name in after})

    def _drafts(self) -> dict[str, float]:
        page = _text(f"{self.site.url}/metrics", optional=True) if self.site.kind == "vllm" else ""
        return of_metrics(page) or {}


@dataclass(slots=True)
class Heard:
    """A streamed answer: when each piece came (seconds from the request), and what was said at the end."""

    pieces: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    finish: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    timings: Mapping[str, Any] = field(default_factory=dict)
    ended: float = 0.0

    def take(self, chunk: Mapping[str, Any], now: float) -> None:
        if "error" in chunk:
            raise LocalspecError(f"It answered with an error: {_message(chunk)}.")
        for choice in (chunk.get("choices") or ())[:1]:
            delta = choice.get("delta") or {}
            if text := (delta.get("reasoning_content") or "") + (delta.get("content") or ""):
                self.pieces.append(text)
                self.at.append(now)
            self.finish = choice.get("finish_reason") or self.finish
        self.usage = chunk.get("usage") or self.usage
        self.timings = chunk.get("timings") or self.timings


def body(
    kind: str, model: str, limits: Limits, temperature: float, messages: Sequence[Message], seed: int
) -> dict[str, Any]:
    """The settings that localspec answers with, as this kind of server calls them."""
    sampling = limits.sampling
    found: dict[str, Any] = {
        "model": model,
        "messages": [{"role": each.role, "content": each.text} for each in limits.messages(messages)],
        "max_tokens": limits.max_tokens,
        "temperature": temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if limits.stop:
        found["stop"] = list(limits.stop)
    if sampling.penalised:
        found |= {"presence_penalty": sampling.presence_penalty, "frequency_penalty": sampling.frequency_penalty}
        found["repetition_penalty" if kind == "vllm" else "repeat_penalty"] = sampling.repeat_penalty
    if kind == "llama-server":
        found |= {"cache_prompt": False, "repeat_last_n": sampling.penalty_last_n}
    if limits.full_length and kind != "openai":
        found["ignore_eos"] = True
    return found


def reply(heard: Heard, metrics: Mapping[str, float]) -> Reply:
    """A server's own clock where it has one; else the pieces as they came. The decode phase of n tokens is that of
    the n - 1 that come after the first one, times n / (n - 1): the first comes with the prompt."""
    timings, usage = heard.timings, heard.usage
    tokens = int(timings.get("predicted_n") or usage.get("completion_tokens") or len(heard.at))
    first = heard.at[0] if heard.at else heard.ended
    spent = (
        timings["predicted_ms"] / 1000 if "predicted_ms" in timings else (heard.at[-1] - first if heard.at else 0.0)
    )
    read = timings.get("prompt_n")
    cached = int(timings.get("cache_n") or 0)
    drafted = timings.get("draft_n", metrics.get("draft_tokens"))
    accepted = timings.get("draft_n_accepted", metrics.get("accepted_tokens"))
    # A server of this kind that drafts nothing leaves the counts out.
    rounds = tokens - int(accepted or 0) if timings or metrics else None
    return Reply(
        text="".join(heard.pieces),
        finish=heard.finish,
        prompt_tokens=int(usage.get("prompt_tokens") or (read or 0) + cached),
        reused_tokens=cached,
        tokens=tokens,
        prefill_s=timings["prompt_ms"] / 1000 if "prompt_ms" in timings else None,
        ttft_s=first,
        decode_s=spent * tokens / (tokens - 1) if tokens > 1 and spent > 0 else heard.ended,
        total_s=heard.ended,
        latency=tuple(bursts(heard.at)),
        rounds=rounds,
        drafted=None if drafted is None else int(drafted),
        accepted=None if accepted is None else int(accepted),
    )


def bursts(at: Sequence[float]) -> Iterator[tuple[int, float]]:
    """(pieces, seconds since the ones before), pieces of one pass taken together. The first piece is the TTFT's."""
    last, count, gap = (at[0] if at else 0.0), 0, 0.0
    for now in at[1:]:
        if now - last >= _BURST_S:
            if gap:
                yield count, gap
            count, gap = 0, round(now - last, 6)
        count, last = count + 1, now
    if gap:
        yield count, gap


def _listen(site: Site, asked: Mapping[str, Any]) -> Heard:
    request = urllib.request.Request(
        f"{site.url}/v1/chat/completions", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    heard, began = Heard(), perf_counter()
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE_S) as stream:
            for line in stream:
                if line.startswith(b"data:") and (data := line[5:].strip()) != b"[DONE]":
                    heard.take(json.loads(data), perf_counter() - began)
    except urllib.error.HTTPError as error:
        raise LocalspecError(f"It answered with HTTP {error.code}: {_explained(error)}.") from None
    except (OSError, http.client.HTTPException) as error:
        raise Gone(f"It no longer answers ({_reason(error)}).") from None
    except ValueError:
        raise LocalspecError("Its answer is not JSON.") from None
    heard.ended = perf_counter() - began
    return heard


def _json(url: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(url))
    except ValueError:
        raise Gone(
            f"{url} does not answer with JSON.", "Give the address of an OpenAI-compatible server."
        ) from None
    return found if isinstance(found, dict) else {}


def _optional(url: str) -> dict[str, Any]:
    try:
        found = json.loads(_text(url, optional=True) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _text(url: str, *, optional: bool = False) -> str:
    """`optional`: empty where the server does not have it."""
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            content: bytes = answer.read()
            return content.decode("utf-8", "replace")
    except (OSError, ValueError, http.client.HTTPException) as error:
        if optional:
            return ""
        raise Gone(
            f"{url} can't be read ({_reason(error)}).", "Give the address of an OpenAI-compatible server that runs."
        ) from None


def _explained(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read(4096).decode("utf-8", "replace")
        return _message(json.loads(text))
    except (OSError, ValueError, AttributeError):
        return str(error.reason)


def _message(answer: Mapping[str, Any]) -> str:
    found = answer.get("error", answer.get("detail", answer))
    return str(found.get("message", found) if isinstance(found, dict) else found)[:200].rstrip(".")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or getattr(error, "strerror", None) or error) or type(error).__name__
