"""The figures of a report by hand, and its forms: JSON there and back, 80 columns, Markdown, charts."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from localspec.bench import charts, files, tables
from localspec.bench.figures import by_category, fold
from localspec.bench.report import SCHEMA, Report, Row, document, read, text
from localspec.bench.runner import Identity, Outcome, Parting
from localspec.bench.sample import Sample, Task
from localspec.errors import LocalspecError, UsageError
from tests.bench.scripted import said

ENVIRONMENT = {
    **dict.fromkeys(("localspec", "llama_cpp", "llama_cpp_python", "backend", "cpu"), "x"),
    "commit": "0123456789abcdef",
    "models": [{"file": "model.gguf", "fingerprint": "f" * 64}],
}
SETTINGS = {
    **{"max_tokens": 64, "repeats": 1, "seed": 1, "sampling": {"top_k": 40}, "full_length": False},
    "suite": {"name": "suite.jsonl", "prompts": 6, "sha256": "00"},
}


def sample(variant: str, prompt: int, decode_s: float, **more: Any) -> Sample:
    category = "chat" if prompt % 2 else "code editing"
    return Sample(variant, Task(f"p{prompt}", category, 1), 1, said(f"text {prompt}", 50, decode_s, **more))


def drafted(variant: str, prompt: int, decode_s: float) -> Sample:
    return sample(
        variant, prompt, decode_s, rounds=30, drafted=60, tested=40, accepted=20, cut=0,
        positions=((30, 15), (10, 5)), draft_s=0.01, verify_s=decode_s - 0.05, sample_s=0.02, widest=3,
        latency=((1, 0.01), (3, 0.03), (46, decode_s - 0.04)),
    )  # fmt: skip


def report(*more: Sample, rows: tuple[Row, ...] = (), **fields: Any) -> Report:
    plain = [drafted("off", i, 1.0 + 0.01 * i) for i in range(6)]
    ours = [drafted("lookup", i, 0.5 + 0.01 * i) for i in range(6)]
    task = Task("p2", "code editing", 1)
    identity = {"lookup": Identity(6, 5, [(task, Parting(7, 0.02, 0.4, 9, "near tie"))])}
    outcome = Outcome([*plain, *ours, *more], identity, complete=True, **fields)
    return Report(
        "Demo", "2026-01-01T10:00:00+00:00", SETTINGS, ENVIRONMENT, [{"label": "", "settings": "cache q8_0"}],
        (Row("off", "off"), Row("lookup", "off", details={"temperature": 0.0}), *rows), outcome, 75.0,
    )  # fmt: skip


def test_figures_are_sums_that_are_divided_last() -> None:
    samples = [drafted("a", 0, 1.0), sample("a", 1, 3.0, rounds=50, drafted=0, tested=0, accepted=0, cut=1)]
    found = fold(samples, "a", "all")
    assert found.tokens_per_second == pytest.approx(100 / 4.0)
    assert found.prefill_tokens_per_second == pytest.approx(20 / 0.2)
    assert (found.acceptance_rate, found.acceptance_of) == (20 / 40, "tested")
    assert found.mean_acceptance_length == 100 / 80
    assert found.positions == ((30, 15), (10, 5))
    assert found.cut == 1
    assert found.ttft_s == 0.11
    # One of the two doesn't say where its time went, so there is no sum.
    assert (found.draft_s, found.host_s) == (None, None)
    one = fold(samples[:1], "a", "all")
    assert one.host_s == pytest.approx(1.0 - 0.01 - 0.95 - 0.02)
    assert one.latency_s is not None and one.latency_s[0] == pytest.approx((1.0 - 0.04) / 46)


def test_a_server_that_counts_only_drafted_tokens_is_said_to() -> None:
    found = fold([sample("peer", 0, 1.0, rounds=30, drafted=80, accepted=20)], "peer", "all")
    assert (found.acceptance_rate, found.acceptance_of) == (0.25, "drafted")
    assert fold([sample("peer", 0, 1.0)], "peer", "all").acceptance_rate is None


def test_speed_ups_are_over_what_both_have_answered() -> None:
    samples = [sample("off", 0, 1.0), sample("off", 2, 9.0), sample("fast", 0, 0.5)]
    (row,) = [row for row in by_category(samples, {"fast": "off"}) if row.category == "all"]
    assert row.speedup is not None and row.speedup.value == pytest.approx(2.0)


def test_json_goes_there_and_back(tmp_path: Path) -> None:
    made = report()
    path = tmp_path / "a.json"
    path.write_text(text(document(made)), "utf-8")
    found = json.loads(path.read_text("utf-8"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["schema"] == SCHEMA
    assert set(found) == {
        *("schema", "title", "created", "complete", "seconds", "settings", "environment", "loads", "variants"),
        *("interval", "results", "identity", "skipped", "problems", "samples"),
    }
    assert "text 1" not in path.read_text("utf-8")  # what was said stays at home
    back = read(path)
    assert back.baselines == {"off": "off", "lookup": "off"}
    for before, after in zip(made.outcome.samples, back.samples, strict=True):
        assert (after.task, after.variant, after.reply.latency) == (
            before.task,
            before.variant,
            before.reply.latency,
        )
        assert back.digests[after.variant, after.task.prompt, 1, 1] == before.reply.digest
    assert by_category(back.samples, back.baselines) == made.figures


def test_each_sample_has_a_line_of_its_own() -> None:
    lines = text(document(report())).splitlines()
    assert sum(line.startswith('  {"variant": ') for line in lines) == 12


def test_every_documented_field_is_there_and_the_other_way_round() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bench.md").read_text("utf-8")
    whole = document(report())
    names = {*whole, *whole["results"][0], *whole["samples"][0], *whole["identity"][0], *whole["variants"][0]}
    assert {name for name in names if f"`{name}`" not in page} <= {"details"}


def test_the_terminal_table_fits_80_columns() -> None:
    long = "llama-server ngram-simple --spec-ngram-simple-size-n 3 T=0.8"
    more = [sample(long, i, 1.5) for i in range(6)]
    lines = "\n".join(tables.lines(report(*more, rows=(Row(long, "off", "llama-server"),)))).splitlines()
    assert max(map(len, lines)) <= 80
    shown = "\n".join(lines)
    assert "1.95x" in shown and "6 prompts of suite.jsonl" in shown and "1 min 15 s" in shown
    assert "lookup: 5 of 6 greedy texts are those of plain decoding, 1 differ at a near tie" in shown
    assert "p2: token 8, gap 0.02, noise 0.4 at 9 rows: near tie" in shown


def test_a_difference_that_no_numerics_explain_is_called_a_bug() -> None:
    task = Task("p1", "chat", 1)
    found = {"lookup": Identity(6, 4, [(task, Parting(7, 3.0, 0.1, 9, "BUG"))])}
    assert "1 BUG: more than" in " ".join(tables.identity(found))
    equal = {name: Identity(6, 6) for name in ("lookup", "suffix")}
    assert list(tables.identity(equal)) == [
        "Temperature 0: the text of plain decoding in every answer of lookup, suffix."
    ]


def test_what_went_wrong_is_in_every_form() -> None:
    made = report(skipped={"p9": "The prompt has 9 tokens."}, problems={"server": "It no longer answers."})
    made.outcome.complete = False
    for shown in ("\n".join(tables.lines(made)), tables.markdown(made)):
        assert "Skipped: 1 (p9)" in shown and "server: It no longer answers." in shown and "STOPPED" in shown


def test_markdown_is_a_table_with_its_intervals() -> None:
    shown = tables.markdown(report())
    rows = [line for line in shown.splitlines() if line.startswith("| lookup")]
    assert len(rows) == 2 and "1.95x" in rows[0] and rows[0].count("|") == 9
    assert "0123456789ab" in shown and "model.gguf (ffffffffffff)" in shown


def test_charts_are_svg_with_every_variant_and_category() -> None:
    drawn = charts.charts(report())
    assert set(drawn) == {"speedup.svg", "acceptance.svg", "latency.svg", "time.svg"}
    for name, picture in drawn.items():
        root = ET.fromstring(picture)
        width, height = (float(root.attrib[side]) for side in ("width", "height"))
        words = [element.text for element in root.iter() if element.tag.endswith("text")]
        assert "lookup" in words, name
        for element in root.iter():
            for key, most in (("x", width), ("x1", width), ("x2", width), ("y", height), ("y1", height)):
                assert -0.1 <= float(element.attrib.get(key, 0)) <= most, (name, element.attrib)
    assert "code editing" in drawn["speedup.svg"] and "1.95x" in drawn["speedup.svg"]


def test_charts_of_next_to_nothing_are_drawn_as_well() -> None:
    made = report()
    made.outcome.samples[:] = [sample("off & <on>", 0, 1.0, latency=())]
    for picture in charts.charts(made).values():
        ET.fromstring(picture)


def test_a_folder_gets_everything(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "report"
    files.prepare(tmp_path / "one.json", folder)
    written = files.save(report(), tmp_path / "one.json", folder)
    assert {path.name for path in folder.iterdir()} == {
        *("report.json", "report.md", "speedup.svg", "acceptance.svg", "latency.svg", "time.svg"),
    }
    assert all(path.exists() for path in written)
    assert read(folder / "report.json").document == read(tmp_path / "one.json").document
    assert "![speedup](speedup.svg)" in (folder / "report.md").read_text("utf-8")


def test_a_place_that_can_not_be_written_is_found_before_anything_is_measured(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="can't be written"):
        files.prepare(None, tmp_path / "file" / "report")
    with pytest.raises(UsageError, match="can't be written"):
        files.prepare(tmp_path / "none" / "a.json", None)
    with pytest.raises(UsageError, match="is a folder"):
        files.prepare(tmp_path, None)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_full_disk_leaves_no_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, content: str, encoding: str) -> int:
        self.write_bytes(content[:10].encode())
        raise OSError(28, "No space left on device")

    (tmp_path / "a.json").write_text("before")
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(LocalspecError, match="No space left on device") as caught:
        files.save(report(), tmp_path / "a.json", None)
    assert "The table above" in caught.value.hint
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("a.json", "before")]
