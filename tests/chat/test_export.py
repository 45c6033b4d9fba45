"""The exported files hold the figures that were on screen, and they can't hurt what opens them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from localspec.chat import export as module
from localspec.chat.answer import Answer
from localspec.chat.export import export_session
from localspec.chat.message import Piece
from localspec.chat.session import Asked, Session
from localspec.errors import LocalspecError
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, Round

NOW = datetime(2025, 11, 30, 17, 15, 0, tzinfo=UTC)
SECRET = "the words of the conversation"


def one_round(method: str, drafted: int, accepted: int, *, cut: bool = False) -> Round:
    return Round(
        method=method,
        source=method if drafted else "off",
        drafted=tuple(range(drafted)),
        accepted=accepted,
        emitted=tuple(range(accepted + (not cut))),
        p=(0.5,) * accepted,
        q=(1.0,) * accepted,
        limit=8,
        draft_s=0.001,
        verify_s=0.02,
        sample_s=0.001,
        total_s=0.025,
        finish=Finish.STOP if cut else None,
    )


ROUNDS = (
    [one_round("off", 0, 0) for _ in range(4)]
    + [one_round("lookup", 4, 2), one_round("lookup", 0, 0), one_round("lookup", 3, 3)]
    + [one_round("lookup", 5, 2, cut=True)]
)


def answered(rounds: list[Round] = ROUNDS, **fields: Any) -> Answer:
    pieces = [Piece(token, SECRET, "plain") for made in rounds for token in made.emitted]
    known = {"finish": Finish.STOP, "prompt_tokens": 9, "seed": 42, "decode_s": 0.25, "ttft_s": 0.1, **fields}
    return Answer("off", list(rounds), pieces, **known)


def session_of(*answers: Answer, sampling: Sampling | None = None) -> Session:
    session = Session(SECRET)
    question = session.say(SECRET)
    for answer in answers:
        session.answer(question, answer, Asked(sampling or Sampling(seed=7), 8))
    return session


def exported(
    folder: Path, session: Session, environment: dict[str, Any] | None = None
) -> tuple[Any, list[dict[str, str]]]:
    json_path, csv_path = export_session(folder, session, environment, now=NOW)
    with csv_path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return json.loads(json_path.read_text("utf-8")), rows


def test_the_files_are_named_after_the_moment(tmp_path: Path) -> None:
    paths = export_session(tmp_path, session_of(answered()), None, now=NOW)
    assert [path.name for path in paths] == [
        "localspec-2025-11-30-171500.json",
        "localspec-2025-11-30-171500.csv",
    ]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


def test_the_json_says_what_it_is_and_where_it_was_measured(tmp_path: Path) -> None:
    report, _ = exported(tmp_path, session_of(answered()), {"cpu": "a processor", "threads": 4})
    assert report["schema"] == "localspec.session/1"
    assert report["environment"] == {"cpu": "a processor", "threads": 4}
    assert report["exported_at"] == "2025-11-30T17:15:00+00:00"


def test_an_answer_has_the_fields_of_the_contract(tmp_path: Path) -> None:
    (answer,) = exported(tmp_path, session_of(answered()))[0]["answers"]
    speculation = answer["speculation"]
    assert speculation["rounds"] == 8
    assert speculation["accepted"] == 7
    assert speculation["tested"] == 8  # 2 + 1 rejected, 3, and 2 of the round that was cut
    assert speculation["acceptance_rate"] == 7 / 8
    assert speculation["mean_acceptance_length"] == 14 / 8
    assert speculation["per_position"][0] == {"reached": 3, "accepted": 3}
    assert set(speculation["by_drafter"]) == {"lookup"}
    assert answer["completion_tokens"] == 14
    assert answer["finish_reason"] == "stop"
    assert answer["timings"]["tokens_per_second"] == 14 / 0.25
    assert answer["timings"]["ttft_s"] == 0.1


def test_the_seed_is_the_one_that_was_used(tmp_path: Path) -> None:
    report, rows = exported(tmp_path, session_of(answered(seed=42), answered(seed=None)))
    assert [answer["sampling"]["seed"] for answer in report["answers"]] == [42, 7]
    assert [row["seed"] for row in rows if row["segment"] == "1"] == ["42", "7"]


def test_the_table_has_a_row_for_each_answer_and_segment(tmp_path: Path) -> None:
    report, rows = exported(tmp_path, session_of(answered(), answered(ROUNDS[:4])))
    assert [(row["answer"], row["segment"], row["method"]) for row in rows] == [
        ("2", "1", "off"),
        ("2", "2", "lookup"),
        ("3", "1", "off"),
    ]
    assert [segment["method"] for segment in report["answers"][0]["segments"]] == ["off", "lookup"]
    assert [(row["sibling"], row["active"]) for row in rows] == [("1", "False"), ("1", "False"), ("2", "True")]


def test_emitted_is_accepted_plus_rounds_minus_cut_on_every_row(tmp_path: Path) -> None:
    _, rows = exported(tmp_path, session_of(answered(), answered(ROUNDS[:4]), answered([])))
    assert len(rows) == 4
    for row in rows:
        assert int(row["emitted"]) == int(row["accepted"]) + int(row["rounds"]) - int(row["cut"])
    assert [row["cut"] for row in rows] == ["0", "1", "0", "0"]


def test_an_answer_without_a_round_is_not_missing_from_the_table(tmp_path: Path) -> None:
    _, rows = exported(tmp_path, session_of(answered([], finish=None, error="killed by signal 9")))
    assert [(row["emitted"], row["error"], row["acceptance_rate"]) for row in rows] == [
        ("0", "killed by signal 9", "")
    ]


def test_the_words_of_the_conversation_stay_out(tmp_path: Path) -> None:
    for path in export_session(tmp_path, session_of(answered()), None, now=NOW):
        assert SECRET not in path.read_text("utf-8")


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", " =", "\n=", "＝"])
def test_no_cell_is_a_formula(tmp_path: Path, begin: str) -> None:
    hostile = [replace(made, method=f"{begin}1+1") for made in ROUNDS[:1]]
    _, rows = exported(tmp_path, session_of(answered(hostile, error=f"{begin}HYPERLINK()")))
    assert rows[0]["method"] == f"'{begin}1+1"
    assert rows[0]["error"] == f"'{begin}HYPERLINK()"


def test_a_negative_number_stays_a_number(tmp_path: Path) -> None:
    report, _ = exported(tmp_path, session_of(answered(), sampling=Sampling(presence_penalty=-0.5)))
    assert report["answers"][0]["sampling"]["presence_penalty"] == -0.5
    assert module._cell(-0.5) == -0.5


def test_text_is_utf8(tmp_path: Path) -> None:
    json_path, csv_path = export_session(tmp_path, session_of(answered(error="zu groß 🙂")), None, now=NOW)
    assert "zu groß 🙂".encode() in json_path.read_bytes()
    assert "zu groß 🙂".encode() in csv_path.read_bytes()


@pytest.mark.parametrize("taken", ["json", "csv"])
def test_a_file_is_never_overwritten(tmp_path: Path, taken: str) -> None:
    old = tmp_path / f"localspec-2025-11-30-171500.{taken}"
    old.write_text("precious")
    paths = export_session(tmp_path, session_of(answered()), None, now=NOW)
    assert [path.stem for path in paths] == ["localspec-2025-11-30-171500-2"] * 2
    assert old.read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize("where", ["missing", "a file"])
def test_a_folder_that_cannot_be_written_is_said_with_a_hint(tmp_path: Path, where: str) -> None:
    (tmp_path / "a file").write_text("")
    with pytest.raises(LocalspecError, match="Cannot write the statistics") as error:
        export_session(tmp_path / where, session_of(answered()), None, now=NOW)
    assert error.value.hint


def test_a_failed_export_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "_write", full)
    with pytest.raises(LocalspecError, match="No space left on device"):
        export_session(tmp_path, session_of(answered()), None, now=NOW)
    assert list(tmp_path.iterdir()) == []
