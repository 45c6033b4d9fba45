"""What import contracts can't see: what is really loaded, how long files are, and what no file may hold."""

from __future__ import annotations

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

import localspec.spec

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "localspec"
HEAVY = {"llama_cpp", "textual", "numpy", "huggingface_hub"}
SPEC = [m.name for m in pkgutil.walk_packages(localspec.spec.__path__, "localspec.spec.")]


def loaded(code: str) -> set[str]:
    """The top-level modules that a fresh interpreter has after `code`."""
    report = "print('\\n' + ' '.join(sorted({name.partition('.')[0] for name in sys.modules})))"
    script = f"import sys\ntry:\n    {code}\nexcept SystemExit as end:\n    assert not end.code, end.code\n{report}"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


def command(*words: str) -> str:
    return f"sys.argv = ['localspec', *{words!r}]; from localspec.cli import main; main()"


def commands() -> set[str]:
    from typer.main import get_command

    return set(get_command(importlib.import_module("localspec.cli").app).commands)  # type: ignore[attr-defined]


def test_help_loads_nothing_heavy() -> None:
    assert loaded(command("--help")) & HEAVY == set()


@pytest.mark.parametrize("name", sorted(commands()))
def test_the_help_of_each_command_loads_nothing_heavy(name: str) -> None:
    assert loaded(command(name, "--help")) & HEAVY == set()


def test_the_list_of_models_loads_nothing_heavy() -> None:
    assert loaded(command("models")) & HEAVY == set()


@pytest.mark.parametrize("module", ["localspec.config", "localspec.catalog", "localspec.spec.settings"])
def test_what_every_command_needs_loads_nothing_heavy(module: str) -> None:
    assert loaded(f"import {module}") & HEAVY == set()


def test_the_algorithm_knows_the_standard_library_and_numpy_only() -> None:
    known = {*sys.stdlib_module_names, *loaded("import numpy.random"), "localspec"}
    assert loaded(f"import {', '.join(SPEC)}") - known == set()


def test_the_interfaces_leave_llama_cpp_to_the_engine_process() -> None:
    assert "llama_cpp" not in loaded("import localspec, localspec.tui.app, localspec.plain")


def test_the_line_chat_needs_no_textual() -> None:
    assert "textual" not in loaded("import localspec.plain")


def test_the_glossary_has_every_figure() -> None:
    from localspec.chat.answer import Answer
    from localspec.chat.figures import speculation, timings

    glossary = (ROOT / "docs" / "statistics.md").read_text("utf-8")
    figures = speculation(Answer("off"), "off", "block").keys() | timings(Answer("off")).keys()
    assert {name for name in figures if f"`{name}`" not in glossary} <= {"verifier"}


def test_a_home_that_nobody_has_ends_no_program() -> None:
    """Path.expanduser raises for `~nobody`; os.path.expanduser leaves it as it is."""
    files = (file for file in PACKAGE.rglob("*.py") if ".expanduser()" in file.read_text("utf-8"))
    assert [str(file.relative_to(PACKAGE)) for file in files] == []


@pytest.mark.parametrize("file", sorted(PACKAGE.rglob("*.py")), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_files_stay_short(file: Path) -> None:
    most = 250 if file == PACKAGE / "tui" / "app.py" else 300
    assert len(file.read_text("utf-8").splitlines()) <= most


def tracked() -> list[Path]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], check=True, capture_output=True, text=True, cwd=ROOT)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a checkout")
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


# Written in pieces, so that this file holds none of them.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"(?<![\w.~-])/" + r"(?:work|root|workspace|builds?)/",
            r"/" + r"tmp/[\w.-]",
            r"/" + r"(?:home|Users)/(?!me\b)\w",
            r"py" + r"pi\.",
            r"python" + r"hosted\.org",
            r"arti" + r"factory",
            r"proxy\.gol" + r"ang",
        ]
    )
)


def test_no_file_holds_a_path_of_a_machine_or_a_package_registry() -> None:
    found = []
    for path in tracked():
        text = path.read_bytes().decode("utf-8", "replace")
        found += [f"{path.relative_to(ROOT)}: {match[0]}" for match in FORBIDDEN.finditer(text)]
    assert found == []


@pytest.mark.parametrize(
    "text", ["at /" + "work/main", "'/" + "home/jo/x'", "https://py" + "pi.org", "/" + "tmp/x", "see /" + "root/x"]
)
def test_such_a_path_would_be_seen(text: str) -> None:
    assert FORBIDDEN.search(text)
