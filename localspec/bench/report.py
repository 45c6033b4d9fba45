"""A report: one JSON object with every sample (docs/bench.md), written to a file and read back for a comparison."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from localspec.bench import figures, statistics
from localspec.bench.figures import Figures
from localspec.bench.runner import Outcome
from localspec.bench.sample import Sample, from_json, to_json
from localspec.errors import UsageError

SCHEMA = "localspec.bench/1"


@dataclass(frozen=True, slots=True)
class Row:
    """One contestant as the report describes it."""

    label: str
    baseline: str  # the label of what its speed-up is measured against
    kind: str = "localspec"  # or what the peer is
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """What was measured, ready to be written or shown."""

    title: str
    created: str
    settings: Mapping[str, Any]
    environment: Mapping[str, Any]
    loads: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]
    outcome: Outcome
    seconds: float

    @property
    def figures(self) -> list[Figures]:
        return figures.by_category(self.outcome.samples, {row.label: row.baseline for row in self.rows})


def now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")


def document(report: Report) -> dict[str, Any]:
    outcome = report.outcome
    return {
        "schema": SCHEMA,
        "title": report.title,
        "created": report.created,
        "complete": outcome.complete,
        "seconds": report.seconds,
        "settings": dict(report.settings),
        "environment": dict(report.environment),
        "loads": [dict(load) for load in report.loads],
        "variants": [
            {"label": row.label, "baseline": row.baseline, "kind": row.kind, **row.details} for row in report.rows
        ],
        "interval": {"level": statistics.LEVEL, "resamples": statistics.RESAMPLES, "fewest": statistics.FEWEST},
        "results": [_result(row) for row in report.figures],
        "identity": [
            {
                "variant": label,
                "compared": found.compared,
                "equal": found.equal,
                "differences": [asdict(task) | asdict(parting) for task, parting in found.partings],
            }
            for label, found in outcome.identity.items()
        ],
        "skipped": outcome.skipped,
        "problems": outcome.problems,
        "samples": [to_json(sample) for sample in outcome.samples],
    }


def text(document: Mapping[str, Any]) -> str:
    """Indented, but one line for each sample: there are thousands of figures in them."""
    lines = ",\n".join("  " + json.dumps(sample, ensure_ascii=False) for sample in document["samples"])
    head = json.dumps({**document, "samples": []}, indent=1, ensure_ascii=False)
    return head.removesuffix("[]\n}") + f"[\n{lines}\n ]\n}}\n"


@dataclass(frozen=True, slots=True)
class Saved:
    """A report that was read back."""

    path: Path
    document: Mapping[str, Any]
    samples: Sequence[Sample]
    digests: Mapping[tuple[str, str, int, int], str]  # (variant, prompt, turn, repeat) -> digest of the text

    @property
    def baselines(self) -> dict[str, str]:
        return {str(row["label"]): str(row["baseline"]) for row in self.document["variants"]}


def read(path: Path) -> Saved:
    """Raises UsageError for anything that is no report."""
    hint = "Give a file that `localspec bench --json FILE` has written."
    try:
        found = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"Cannot read {path}: {error.strerror}.", hint) from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}).", hint) from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise UsageError(f"{path} is no report of localspec bench: its schema is {schema!r}, not {SCHEMA!r}.", hint)
    try:
        rows = [from_json(row) for row in found["samples"]]
        saved = Saved(
            path,
            found,
            [sample for sample, _ in rows],
            {(s.variant, s.task.prompt, s.task.turn, s.repeat): digest for s, digest in rows},
        )
        _ = saved.baselines, found["settings"]["max_tokens"], found["environment"]["cpu"]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UsageError(f"{path} is a damaged report ({error!r}).", hint) from None
    return saved


def _result(row: Figures) -> dict[str, Any]:
    found = asdict(row)
    latency = row.latency_s
    found["latency_s"] = dict(zip(("p50", "p95", "p99"), latency, strict=True)) if latency else None
    found["positions"] = [{"reached": reached, "accepted": accepted} for reached, accepted in row.positions]
    return found
