"""The statistics of a session as two files: JSON with everything, CSV with one row per answer and segment.

The words of the conversation stay out: these files are made to be shown to others. Knows no screen and no clock.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from localspec.chat.answer import Answer
from localspec.chat.figures import counts, speculation, timings
from localspec.chat.session import Asked, Node, Session
from localspec.errors import LocalspecError
from localspec.spec.stats import Segment, Stats

SCHEMA = "localspec.session/1"
_BEGINS = tuple("=+-@＝＋－＠")
COLUMNS = (
    *("answer", "question", "sibling", "siblings", "active", "segment", "segments", "method", "verifier"),
    *("draft_tokens", "temperature", "top_k", "top_p", "min_p", "seed", "finish_reason", "error"),
    *("prompt_tokens", "reused_tokens", "prefill_s", "ttft_s", "rounds", "emitted", "drafted", "tested"),
    *("accepted", "cut", "acceptance_rate", "mean_acceptance_length", "tokens_per_second"),
    *("draft_s", "verify_s", "sample_s", "total_s"),
)


def export_session(
    folder: Path, session: Session, environment: Mapping[str, Any] | None, *, now: datetime
) -> tuple[Path, Path]:
    """Write both files under one new name in `folder`; returns (JSON, CSV). Never overwrites."""
    active = set(session.path)
    answers = session.answers()
    report = {
        "schema": SCHEMA,
        "exported_at": now.isoformat(timespec="seconds"),
        "environment": dict(environment) if environment is not None else None,
        "answers": [_described(node, node in active) for node in answers],
    }
    try:
        json_path, csv_path = _reserve(folder, f"localspec-{now:%Y-%m-%d-%H%M%S}")
        try:
            _write(json_path, json.dumps(report, indent=2, ensure_ascii=False) + "\n")
            _write(csv_path, _table([row for node in answers for row in _rows(node, node in active)]))
        except BaseException:
            _discard(json_path, csv_path)
            raise
    except (OSError, ValueError) as error:  # ValueError: a zero in the name
        raise LocalspecError(
            f"Cannot write the statistics to {folder}: {getattr(error, 'strerror', None) or error}.",
            "Start localspec in a folder that you may write to, with some space left.",
        ) from error
    return json_path, csv_path


def _parts(node: Node) -> tuple[Answer, Asked]:
    assert node.answer is not None and node.asked is not None, "only answers are exported"
    return node.answer, node.asked


def _described(node: Node, active: bool) -> dict[str, Any]:
    answer, asked = _parts(node)
    return {
        **_identity(node, active),
        "finish_reason": answer.finish,
        "error": answer.error,
        "prompt_tokens": answer.prompt_tokens,
        "reused_tokens": answer.reused_tokens,
        "completion_tokens": len(answer.token_ids),
        "timings": timings(answer),
        "speculation": speculation(answer, answer.method, asked.verifier),
        "draft_tokens": asked.draft_tokens,
        "sampling": {**asdict(asked.sampling), "seed": _seed(answer, asked)},
        "segments": [_segment(segment) for segment in answer.segments],
    }


def _identity(node: Node, active: bool) -> dict[str, Any]:
    """`question` is shared by the answers to one message; `active`: on the path that was on screen."""
    place, siblings = node.place
    question = node.parent.id if node.parent else 0
    return {"answer": node.id, "question": question, "sibling": place, "siblings": siblings, "active": active}


def _segment(segment: Segment) -> dict[str, Any]:
    stats = segment.stats
    speed = {"tokens_per_second": stats.tokens_per_second, "total_s": stats.total_s}
    return {"method": segment.method, **counts(stats), **speed}


def _rows(node: Node, active: bool) -> list[dict[str, Any]]:
    """An answer without a single round still gets its row, so that none is missing from the table."""
    answer, asked = _parts(node)
    runs = answer.segments or (Segment(answer.method, Stats()),)
    shared = {
        **_identity(node, active),
        **asdict(asked.sampling),
        "seed": _seed(answer, asked),
        "segments": len(runs),
        "verifier": asked.verifier,
        "draft_tokens": asked.draft_tokens,
        "finish_reason": answer.finish,
        "error": answer.error,
        "prompt_tokens": answer.prompt_tokens,
        "reused_tokens": answer.reused_tokens,
        "prefill_s": answer.prefill_s,
        "ttft_s": answer.ttft_s,
    }
    return [{**shared, "segment": number, **_segment(run)} for number, run in enumerate(runs, 1)]


def _seed(answer: Answer, asked: Asked) -> int | None:
    return asked.sampling.seed if answer.seed is None else answer.seed


def _table(rows: list[dict[str, Any]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, extrasaction="ignore")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Spreadsheets run a text cell that begins like a formula, and some strip blanks or take wide letters for it; an
    apostrophe in front keeps it text."""
    formula = isinstance(value, str) and (value.lstrip()[:1] in _BEGINS or value[:1] in "\t\r\n") and value
    return f"'{value}" if formula else value


def _reserve(folder: Path, stem: str) -> tuple[Path, Path]:
    """Create both files, empty, under the first name that is free for both."""
    for number in count(1):
        name = stem if number == 1 else f"{stem}-{number}"
        paths = folder / f"{name}.json", folder / f"{name}.csv"
        made: list[Path] = []
        try:
            for path in paths:
                path.open("x").close()
                made.append(path)
            return paths
        except OSError as error:
            _discard(*made)
            if not isinstance(error, FileExistsError):
                raise
    raise AssertionError("unreachable")


def _discard(*paths: Path) -> None:
    for path in paths:
        with suppress(OSError):
            path.unlink()


def _write(path: Path, text: str) -> None:
    """Replace the reserved file in one step: a reader sees nothing or everything."""
    part = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with part.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
