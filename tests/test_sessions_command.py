"""localspec sessions: what was said is found, shown, taken elsewhere and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from localspec.chat.store import Store
from localspec.cli import app
from localspec.errors import LocalspecError, StoreError, UnknownName, UsageError
from tests.chat.said import Kept, everything


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """Two sessions; `kept.session` is the later one."""
    file = tmp_path / "sessions.db"
    monkeypatch.setattr("localspec.chatting.sessions_file", lambda: file)
    kept = Kept(file)
    kept.ask("Tell me about bridges", "A **bridge** carries a road.")
    kept.session = type(kept.session)("Be brief.", model="demo")
    kept.clock.now += 100
    kept.ask("How is bread made?", "With yeast.")
    return kept


def run(*words: str, answer: str | None = None) -> str:
    """Standard output. Errors come as they are."""
    result = CliRunner().invoke(app, ["sessions", *words], input=answer)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.stdout


def test_the_list(kept: Kept) -> None:
    lines = run("list").splitlines()
    assert [line.split("  ")[-2].strip() for line in lines] == ["How is bread made?", "Tell me about bridges"]
    rows = json.loads(run("list", "--json"))
    assert rows[0]["id"] == kept.session.id
    assert rows[0].keys() == {"id", "title", "updated", "messages", "model"}
    assert len(run("list", "--limit", "1").splitlines()) == 1


def test_a_session_is_named_by_id_or_title(kept: Kept) -> None:
    for name in (kept.session.id, kept.session.id[:7], "How is bread made?", "how IS bread made?"):
        assert "With yeast." in run("show", name)
    with pytest.raises(UnknownName) as caught:
        run("show", "How is bred made")
    assert "How is bread made?" in caught.value.hint
    kept.keeper.store.rename(kept.session.id, "Tell me about bridges")
    with pytest.raises(UsageError, match="2 sessions are meant"):
        run("show", "Tell me about bridges")


def test_showing_is_markdown(kept: Kept) -> None:
    text = run("show", "Tell me about bridges")
    assert text.startswith(
        "# Tell me about bridges\n\n> Be brief.\n\n## You\n\nTell me about bridges\n\n## demo\n\n"
    )
    assert "A **bridge** carries a road." in text


def test_searching(kept: Kept) -> None:
    assert "A **bridge** carries a road." in run("search", "road", "brid")
    assert json.loads(run("search", "yeast", "--json"))[0]["session"] == kept.session.id
    assert run("search", "zebra") == ""


def test_an_exported_session_can_be_read_back(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "it.json"
    run("export", kept.session.id, str(file))
    run("rm", "-y", kept.session.id)
    id = run("import", str(file)).strip()
    assert id != kept.session.id
    back = Store(kept.keeper.store.path).read(id)
    assert everything(back) == everything(kept.session)
    assert (back.title, back.system, back.sampling) == ("How is bread made?", "Be brief.", kept.session.sampling)


def test_exporting_never_overwrites(kept: Kept, tmp_path: Path) -> None:
    file = tmp_path / "it.md"
    run("export", kept.session.id, str(file))
    assert "With yeast." in file.read_text()
    file.write_text("mine")
    with pytest.raises(UsageError, match="File exists"):
        run("export", kept.session.id, str(file))
    assert file.read_text() == "mine"
    with pytest.raises(UsageError, match=r"\.md nor in \.json"):
        run("export", kept.session.id, str(tmp_path / "it.txt"))
    assert json.loads(run("export", kept.session.id, "-"))["schema"] == "localspec.conversation/1"


HOSTILE = {
    "no object": "[]",
    "no JSON": "{",
    "deep": "[" * 100_000,
    "another schema": '{"schema": "localspec.session/1"}',
    "no nodes": '{"schema": "localspec.conversation/1"}',
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_export_is_refused(kept: Kept, tmp_path: Path, text: str) -> None:
    file = tmp_path / "it.json"
    file.write_text(text)
    with pytest.raises(UsageError):
        run("import", str(file))
    assert len(kept.keeper.store.sessions()) == 2


@pytest.mark.parametrize("key", ["id", "parent", "chosen", "role", "text", "tokens", "pieces", "rounds", "asked"])
@pytest.mark.parametrize("value", [None, -1, "x", [[]], {}])
def test_a_damaged_export_is_refused_or_harmless(kept: Kept, tmp_path: Path, key: str, value: object) -> None:
    plain = json.loads(run("export", kept.session.id, "-"))
    for node in plain["nodes"]:
        node[key] = value
    file = tmp_path / "it.json"
    file.write_text(json.dumps(plain))
    try:
        id = run("import", str(file)).strip()
    except UsageError as error:
        assert "damaged" in error.message
    else:
        Store(kept.keeper.store.path).read(id).messages()


def test_renaming_and_deleting(kept: Kept) -> None:
    run("rename", "How is bread made?", "Baking")
    assert "Baking" in run("list")
    run("rm", "Baking", answer="n\n")
    assert "Baking" in run("list")
    run("rm", "Baking", answer="y\n")
    assert "Baking" not in run("list")


def test_without_any_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localspec.chatting.sessions_file", lambda: tmp_path / "x" / "sessions.db")
    assert run("list") == ""
    with pytest.raises(LocalspecError, match="no session"):
        run("show", "x")


def test_a_store_that_cannot_be_used_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localspec.chatting.sessions_file", lambda: tmp_path / "file" / "sessions.db")
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError):
        run("list")
