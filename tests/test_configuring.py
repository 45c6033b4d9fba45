"""`localspec config`: what is in effect, where it is said, and what is wrong with it."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from typer.testing import CliRunner

from localspec import config
from localspec.cli import app
from localspec.commands import COMMANDS
from localspec.config import Config, Setting
from localspec.errors import LocalspecError
from localspec.tui.keymap import bindings, keymap

DOCS = Path(__file__).parent.parent / "docs"
RENEW = "python scripts/reference.py writes the tables anew"


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "config_dir", lambda: tmp_path / "settings")
    (tmp_path / "settings").mkdir()
    return tmp_path / "settings" / "config.toml"


def run(*words: str) -> str:
    result = CliRunner().invoke(app, ["config", *words], catch_exceptions=False)
    return result.stdout


def editor(tmp_path: Path, text: str) -> str:
    """A program that stands for an editor and a person: it writes this text into the file."""
    script = tmp_path / "editor.py"
    script.write_text(f"import sys; open(sys.argv[1], 'w').write({text!r})")
    return f"{sys.executable} {script}"


def test_show_says_every_value_and_its_origin(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text('top_k = 7\n[keys]\n"chat.stop" = "ctrl+x"\n')
    monkeypatch.setenv("LOCALSPEC_SEED", "3")
    lines = {line.split()[0]: line for line in run("show").splitlines()}
    assert lines.keys() >= {field.name for field in fields(Config)}
    assert "7" in lines["top_k"] and str(file) in lines["top_k"]
    assert "LOCALSPEC_SEED" in lines["seed"]
    assert lines["min_p"].split()[1:] == ["0.05", "default"]
    assert "recommended by the authors of SmolLM2" in lines["temperature"]
    assert "ctrl+x" in lines["keys.chat.stop"] and f"{file}, line 3" in lines["keys.chat.stop"]


def test_show_for_programs(file: Path) -> None:
    file.write_text("top_k = 7")
    report = json.loads(run("show", "--json"))
    assert report["file"] == str(file)
    assert report["settings"]["top_k"] == {"value": 7, "origin": str(file)}
    assert report["settings"]["seed"] == {"value": None, "origin": "default"}


def test_path(file: Path) -> None:
    assert run("path").strip() == str(file)


def test_edit_makes_a_file_that_is_in_order(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.parent.rmdir()
    monkeypatch.setenv("EDITOR", f"{sys.executable} -c pass")
    monkeypatch.delenv("VISUAL", raising=False)
    run("edit")
    assert file.exists()
    assert config.settings(env={})["top_k"].origin == "default"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("\ntpo_k = 1\n", 2, "top_k"),
        ('seed = 1\nflash_attn = "maybe"\n', 2, "'auto' or 'on' or 'off'"),
        ("seed = 1\n\ntemperature = -1\n", 3, "at least 0"),
        ('[keys]\n"chat.stopp" = "ctrl+x"\n', 2, "chat.stop"),
        ('[keys]\n\n"chat.stop" = "ctl+x"\n', 3, "ctrl"),
        ('[keys]\n"chat.stop" = "entre"\n', 2, "enter"),
        ('[keys]\n"chat.stop" = "ctrl+q"\n', 2, "app.quit"),
        ('[keys]\n"chat.stop" = 3\n', 2, "must be a text"),
    ],
)
def test_edit_says_what_is_wrong_with_file_line_and_nearest(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, line: int, said: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", editor(tmp_path, text))
    with pytest.raises(LocalspecError) as caught:
        run("edit")
    assert f"{file}, line {line}" in caught.value.message
    assert said in caught.value.message + caught.value.hint
    assert "localspec config edit" in caught.value.hint


@pytest.mark.parametrize(("command", "said"), [(None, "no $EDITOR"), ("no-such-program-here", "Cannot start")])
def test_edit_without_an_editor(
    file: Path, monkeypatch: pytest.MonkeyPatch, command: str | None, said: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.delenv("EDITOR", raising=False)
    if command:
        monkeypatch.setenv("EDITOR", command)
    with pytest.raises(LocalspecError) as caught:
        run("edit")
    assert said in caught.value.message and caught.value.hint


def test_a_key_may_be_the_editors_and_a_swap_is_no_clash() -> None:
    wanted = {"chat.stop": "escape, ctrl+x", "chat.export": "ctrl+r", "chat.regenerate": "ctrl+s"}
    found = keymap({name: Setting(keys, "F, line 1") for name, keys in wanted.items()})
    assert found == {"chat.stop": "escape,ctrl+x", "chat.export": "ctrl+r", "chat.regenerate": "ctrl+s"}


def test_every_binding_of_our_own_has_a_description() -> None:
    assert [name for name, binding in bindings().items() if not binding.description] == []


def rows(page: str) -> dict[str, str]:
    text = (DOCS / page).read_text("utf-8")
    return {match[1]: match[2].strip() for match in re.finditer(r"^\| `([^`]+)` \| ([^|]*)\|", text, re.MULTILINE)}


def test_the_page_has_every_key_of_the_file_with_its_default() -> None:
    settings = Config()
    found = {name: default for name, default in rows("configuration.md").items() if "." not in name}
    wanted = {f.name: getattr(settings, f.name) for f in fields(Config)}
    assert found == {name: "" if value is None else f"`{value}`" for name, value in wanted.items()}


def test_the_page_has_every_binding_with_its_keys() -> None:
    found = {name: keys.strip("`") for name, keys in rows("configuration.md").items() if "." in name}
    assert found == {name: binding.key for name, binding in bindings().items()}, RENEW


def test_the_page_of_the_chat_has_every_command_with_its_sentence() -> None:
    page = (DOCS / "chat.md").read_text("utf-8").replace("\\|", "|")
    for command in COMMANDS:
        assert f"| `/{command.name} {command.argument}".rstrip() + "`" in page, RENEW
        assert command.help in page, RENEW
        assert [alias for alias in command.aliases if f"`/{alias}`" not in page] == []


def test_the_shell_can_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    env = {"_LOCALSPEC_COMPLETE": "complete_bash", "COMP_WORDS": "localspec config e", "COMP_CWORD": "2"}
    result = CliRunner().invoke(app, [], env=env, prog_name="localspec")
    assert result.stdout.split() == ["edit"]
