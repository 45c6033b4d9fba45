"""Counters since the server began, in Prometheus' text format. The names are vLLM's, so that its dashboards fit.

Counts rounds, like every other figure; there is nothing to reset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from localspec.engine.messages import Emitted, Finished, Prefill
from localspec.spec.types import Finish

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REASONS = {
    Finish.STOP: "stop",
    Finish.STOP_STRING: "stop",
    Finish.LENGTH: "length",
    Finish.CONTEXT: "length",
    Finish.CANCELLED: "abort",
}
Sample: TypeAlias = tuple[dict[str, str], float]


class Metrics:
    """Fed with the events of every answer, those of clients that went away included."""

    def __init__(self) -> None:
        self.loads = self.restarts = 0
        self.refused: Counter[int] = Counter()
        self._drafts = self._drafted = self._accepted = self._emitted = self._prompt = self._reused = 0
        self._positions: list[int] = []  # accepted at each place in a draft
        self._ends: Counter[str] = Counter()

    def see(self, event: Prefill | Emitted) -> None:
        if isinstance(event, Prefill):
            return
        for made in event.rounds:
            self._emitted += len(made.emitted)
            self._drafts += bool(made.drafted)
            self._drafted += len(made.drafted)
            self._accepted += made.accepted
            self._positions += [0] * (len(made.drafted) - len(self._positions))
            for place in range(made.accepted):
                self._positions[place] += 1

    def end(self, event: Finished) -> None:
        self._prompt += event.prompt_tokens
        self._reused += event.reused_tokens
        self._ends[REASONS[event.reason]] += 1

    def text(self, model: str, running: int, waiting: int) -> str:
        one = {"model_name": model, "engine": "0"}
        spec = "vllm:spec_decode_num_"
        places: list[Sample] = [(one | {"position": str(i)}, n) for i, n in enumerate(self._positions)]
        ends: list[Sample] = [(one | {"finished_reason": why}, n) for why, n in sorted(self._ends.items())]
        refused: list[Sample] = [({"status": str(status)}, n) for status, n in sorted(self.refused.items())]
        families: tuple[tuple[str, str, str, list[Sample]], ...] = (
            (f"{spec}drafts_total", "counter", "Rounds in which something was drafted.", [(one, self._drafts)]),
            (f"{spec}draft_tokens_total", "counter", "Draft tokens.", [(one, self._drafted)]),
            (f"{spec}accepted_tokens_total", "counter", "Accepted draft tokens.", [(one, self._accepted)]),
            (f"{spec}accepted_tokens_per_pos_total", "counter", "Accepted, by place in the draft.", places),
            ("vllm:prompt_tokens_total", "counter", "Tokens of prompts.", [(one, self._prompt)]),
            ("vllm:prefix_cache_hits_total", "counter", "Of these, still in the cache.", [(one, self._reused)]),
            ("vllm:generation_tokens_total", "counter", "Tokens of answers.", [(one, self._emitted)]),
            ("vllm:request_success_total", "counter", "Answers, by how they ended.", ends),
            ("vllm:num_requests_running", "gauge", "Answers being written.", [(one, running)]),
            ("vllm:num_requests_waiting", "gauge", "Requests in the queue.", [(one, waiting)]),
            ("localspec:requests_refused_total", "counter", "Refused requests, by status.", refused),
            (
                "localspec:engine_restarts_total",
                "counter",
                "Times the engine had to restart.",
                [({}, self.restarts)],
            ),
        )
        return "".join(line for family in families for line in _lines(*family))


def _lines(name: str, kind: str, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        inside = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
        yield f"{name}{{{inside}}} {value}\n" if inside else f"{name} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
