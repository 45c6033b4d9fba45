"""What a server is asked: the body of a request, in the words of its kind. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from localspec.chat.thinking import reread
from localspec.engine.messages import Generate
from localspec.engine.remote.site import Site
from localspec.errors import UsageError

_ELSEWHERE = "Load the model here, or ask a `localspec serve`."
_BAN = {"localspec": -1e9}  # OpenAI's range ends at -100


@dataclass(frozen=True, slots=True)
class Asking:
    path: str
    body: dict[str, Any]


def asking(site: Site, command: Generate, so_far: tuple[int, ...], left: int | None) -> Asking:
    """`so_far` are the tokens after which to go on, `left` how many may follow. Raises UsageError for what this kind
    of server can't do."""
    if so_far and not site.switches:
        raise UsageError("This server can't go on with an answer that was stopped.", "Ask for another one.")
    body: dict[str, Any] = {"model": site.model, "stream": True, "stream_options": {"include_usage": True}}
    if command.prompt is None:
        body["messages"] = [{"role": each.role, "content": each.text} for each in map(reread, command.messages)]
    else:
        body["prompt"] = command.prompt
    body |= _sampling(site, command)
    if left is not None:
        body["max_tokens"] = left
    if command.stop:
        body["stop"] = list(command.stop)
    if site.switches:
        body |= _speculation(command, so_far)
    body |= _held(site, command) | _likely(site, command)
    return Asking("/v1/chat/completions" if command.prompt is None else "/v1/completions", body)


def _sampling(site: Site, command: Generate) -> dict[str, Any]:
    asked = command.sampling
    body: dict[str, Any] = {
        "temperature": asked.temperature,
        "top_p": asked.top_p,
        "presence_penalty": asked.presence_penalty,
        "frequency_penalty": asked.frequency_penalty,
    }
    if site.kind != "other":
        body |= {"top_k": asked.top_k or -1 if site.kind == "vLLM" else asked.top_k, "min_p": asked.min_p}
        repeat = "repetition_penalty" if site.kind == "vLLM" else "repeat_penalty"
        body |= {repeat: asked.repeat_penalty}
    if site.kind in ("localspec", "llama-server"):
        body["repeat_last_n"] = asked.penalty_last_n
    if asked.seed is not None:
        body["seed"] = asked.seed
    bias = {str(token): by for token, by in asked.logit_bias}
    bias |= {str(token): _BAN.get(site.kind, -100) for token in asked.banned}
    return body | ({"logit_bias": bias} if bias else {})


def _speculation(command: Generate, so_far: tuple[int, ...]) -> dict[str, Any]:
    shortest, longest = command.lookup
    config: dict[str, Any] = {"method": command.method}
    config |= {"prompt_lookup_min": shortest, "prompt_lookup_max": longest}
    own = {"resume": list(so_far), "draft_tokens": command.draft_tokens}
    return {"speculative_config": config, "localspec": own}


def _held(site: Site, command: Generate) -> dict[str, Any]:
    if command.grammar is None:
        return {}
    if site.kind not in ("localspec", "llama-server"):
        raise UsageError("This server takes no grammar.", _ELSEWHERE)
    return {"grammar": command.grammar}


def _likely(site: Site, command: Generate) -> dict[str, Any]:
    if command.logprobs is None:
        return {}
    if not site.switches:  # elsewhere they come without the ids of their tokens
        raise UsageError("This server sends no log-probabilities that localspec can read.", _ELSEWHERE)
    if command.prompt is not None:
        return {"logprobs": command.logprobs}
    return {"logprobs": True, "top_logprobs": command.logprobs}
