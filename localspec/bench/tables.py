"""A report as text: for a terminal of 80 columns, and as Markdown to paste into an issue. Pure; prints nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap as fill
from typing import Any

from localspec.bench.figures import ALL, Figures
from localspec.bench.report import Report
from localspec.bench.runner import Identity, Parting
from localspec.bench.statistics import LEVEL, Ratio
from localspec.bench.watching import duration

WIDTH = 80
_NAME = 20  # columns for a label; the rest is for figures
_SHOWN = 3  # differing texts that are shown one by one


def lines(report: Report) -> Iterator[str]:
    """For a terminal."""
    rows = report.figures
    yield from head(report)
    yield ""
    yield f"{'':{_NAME}}  tok/s speed-up  interval    accept length  TTFT ms  p95 ms"
    for row in (row for row in rows if row.category == ALL):
        yield _name(row.variant) + _overall(row)
    if len({row.category for row in rows}) > 2:
        yield ""
        yield from _categories(rows)
    yield ""
    yield from identity(report.outcome.identity)
    yield from troubles(report)


def head(report: Report) -> Iterator[str]:
    settings, environment = report.settings, report.environment
    yield f"{report.title}, {environment['cpu']}, {environment['backend']}"
    for load in report.loads:
        yield f"  {load['label'] + ': ' if load['label'] else ''}{load['settings']}"
    suite = settings["suite"]
    yield (
        f"  {suite['prompts']} prompts of {suite['name']}, at most {settings['max_tokens']} tokens, repeats "
        f"{settings['repeats']}, seed {settings['seed']}"
    )
    yield f"  caches empty before each answer, in turns, warm-up dropped; {duration(report.seconds)} in all"
    if not report.outcome.complete:
        yield "  STOPPED before the end: this is what was done until then."


def _overall(row: Figures) -> str:
    ratio = row.speedup
    return (
        f"{number(row.tokens_per_second, '.1f'):>7}{times(ratio):>9}  {interval(ratio):11}"
        f"{share(row.acceptance_rate):>7}{number(row.mean_acceptance_length, '.2f'):>7}"
        f"{milliseconds(row.ttft_s):>9}{milliseconds(row.latency_s[1] if row.latency_s else None):>8}"
    )


def _categories(rows: Sequence[Figures]) -> Iterator[str]:
    """The speed-up in each; tokens per second where there is nothing to compare with. A name of two words gets two
    lines, and the column of labels is no wider than it must be."""
    names = list(dict.fromkeys(row.category for row in rows if row.category != ALL))
    cells = {(row.variant, row.category): row for row in rows}
    variants = list(dict.fromkeys(row.variant for row in rows))
    label = min(_NAME, max(len(variant) for variant in variants) + 1)
    wide = max(7, min(13, (WIDTH - label) // len(names)))
    words = [(" ".join(name.split()[:-1]), name.split()[-1]) for name in names]
    for line in zip(*words, strict=True):
        if any(line):
            yield " " * label + "".join(f"{short(word, wide - 1):>{wide}}" for word in line)
    for variant in variants:
        found = [cells.get((variant, name)) for name in names]
        compared = any(row and row.speedup for row in found)
        texts = [
            times(row.speedup) if row and compared else number(row.tokens_per_second if row else None, ".1f")
            for row in found
        ]
        yield _name(variant, label) + "".join(f"{text:>{wide}}" for text in texts)
    yield "speed-up by category; plain decoding in tokens per second"


def identity(found: Mapping[str, Identity]) -> Iterator[str]:
    same = [label for label, each in found.items() if each.equal == each.compared]
    if same:
        yield from fill(f"Temperature 0: the text of plain decoding in every answer of {', '.join(same)}.", WIDTH)
    for label, each in ((label, each) for label, each in found.items() if label not in same):
        bugs = sum(parting.verdict == "BUG" for _, parting in each.partings)
        yield from fill(f"{label}: {_verdict(each, bugs)}", WIDTH, subsequent_indent="  ")
        for task, parting in each.partings[:_SHOWN]:
            if weighed := _parting(parting):
                yield f"  {task}: {weighed}"


def _verdict(found: Identity, bugs: int) -> str:
    said = f"{found.equal} of {found.compared} greedy texts are those of plain decoding"
    if bugs:
        return f"{said}; {bugs} BUG: more than numerics explain"
    ties = sum(parting.verdict == "near tie" for _, parting in found.partings)
    return f"{said}, {ties} differ at a near tie" if ties else said


def _parting(found: Parting) -> str:
    if found.verdict == "not weighed":
        return ""
    weighed = (
        f", gap {found.gap:.2g}, noise {found.noise:.2g} at {found.rows} rows" if found.gap is not None else ""
    )
    return f"token {found.position + 1}{weighed}: {found.verdict}"


def troubles(report: Report) -> Iterator[str]:
    skipped, problems = report.outcome.skipped, report.outcome.problems
    if skipped:
        yield f"Skipped: {len(skipped)} ({', '.join(list(skipped)[:5])}{', ...' if len(skipped) > 5 else ''})."
        yield f"  {next(iter(skipped.values()))}"
    for label, problem in problems.items():
        yield f"{label}: {problem}"


def markdown(report: Report) -> str:
    """Everything that a reader needs to judge the figures, in one piece."""
    out = [f"### {report.title}", ""]
    out += [line.strip() + "  " for line in head(report)]
    out += [f"{report.created}; {', '.join(_versions(report.environment))}", ""]
    out += _table(
        [
            "variant",
            "tok/s",
            "speed-up",
            f"{LEVEL:.0%} interval",
            "acceptance",
            "mean length",
            "TTFT",
            "p50 / p95 / p99",
        ],
        [
            [
                row.variant,
                number(row.tokens_per_second, ".1f"),
                times(row.speedup),
                interval(row.speedup),
                share(row.acceptance_rate),
                number(row.mean_acceptance_length, ".2f"),
                milliseconds(row.ttft_s) + " ms",
                " / ".join(milliseconds(value) for value in row.latency_s or ()) + " ms",
            ]
            for row in report.figures
            if row.category == ALL
        ],
    )
    out += ["", *_markdown_categories(report.figures), "", *identity(report.outcome.identity), *troubles(report)]
    return "\n".join(out).rstrip() + "\n"


def _markdown_categories(rows: Sequence[Figures]) -> list[str]:
    names = list(dict.fromkeys(row.category for row in rows if row.category != ALL))
    cells = {(row.variant, row.category): row.speedup for row in rows}
    variants = dict.fromkeys(row.variant for row in rows if row.speedup)
    return _table(
        ["speed-up", *names],
        [
            [
                variant,
                *(f"{times(r)} ({interval(r)})" if (r := cells.get((variant, name))) else "–" for name in names),
            ]
            for variant in variants
        ],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *cells)]


def _versions(environment: Mapping[str, Any]) -> list[str]:
    commit = environment["commit"]
    return [
        f"localspec {environment['localspec']}" + (f" ({commit[:12]})" if commit else ""),
        f"llama.cpp {environment['llama_cpp']}",
        f"llama-cpp-python {environment['llama_cpp_python']}",
        *(f"{model['file']} ({model['fingerprint'][:12]})" for model in environment["models"]),
    ]


def number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def times(ratio: Ratio | None) -> str:
    return "–" if ratio is None else f"{ratio.value:.2f}x"


def interval(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return "few prompts" if ratio.low is None else f"{ratio.low:.2f}-{ratio.high:.2f}"


def share(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.0f} %"


def milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1000 * seconds:.0f}"


def short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def _name(label: str, wide: int = _NAME) -> str:
    """A label that is too long gets a line of its own."""
    return f"{label:{wide}}" if len(label) < wide else f"{short(label, WIDTH)}\n{'':{wide}}"
