"""`localspec run --trace` and `localspec replay` as people use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.chat.text import visible
from localspec.chat.trace import save
from localspec.chat.trace_reading import read
from localspec.cli.replaying import _settings
from localspec.engine.replay import ReplayClient
from localspec.tui.app import ChatApp
from localspec.tui.widgets.token_view import TokenView
from tests.chat.test_trace import recorded
from tests.test_run import home, localspec, run  # noqa: F401  (home is a fixture)
from tests.tui.driving import Driver


def test_a_run_can_be_replayed(home: dict[str, str], noise: str, tmp_path: Path) -> None:  # noqa: F811
    file = str(tmp_path / "a.jsonl")
    arguments = (
        "--max-tokens",
        "12",
        "--temperature",
        "0",
        "--method",
        "lookup",
        "--trace",
        file,
        "--logprobs",
        "2",
    )
    done = run(home, noise, "a b a b a b", *arguments)
    assert done.returncode == 0, done.stderr
    trace = read(Path(file))
    assert trace.header.prompt == "a b a b a b"
    assert len(trace.answer.token_ids) == 12
    assert all(len(each.top) >= 2 for made in trace.answer.rounds for each in made.logprobs)
    assert trace.answer.text.split() == done.stdout.split()
    again = localspec(home, "replay", file, "--speed", "1000")
    assert again.returncode == 0, again.stderr
    assert "(replay)" in again.stderr
    assert again.stdout.split() == visible(trace.answer.text).split()


def test_a_run_with_no_place_for_its_trace_fails_before_it_begins(home: dict[str, str], noise: str) -> None:  # noqa: F811
    done = run(home, noise, "a", "--trace", "nowhere/at/all.jsonl")
    assert done.returncode == 1
    assert "Cannot write the trace" in done.stderr
    assert done.stdout == ""


def test_a_replay_loads_no_llama_cpp(tmp_path: Path) -> None:
    save(recorded(), tmp_path / "a.jsonl")
    script = (
        "import sys\n"
        "sys.argv = ['localspec', 'replay', sys.argv[1], '--plain', '--speed', '1e6']\n"
        "from localspec.cli import main\n"
        "try:\n    main()\nfinally:\n"
        "    import localspec.tui.app\n"
        "    print('llama_cpp' in sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a.jsonl")]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"HOME": str(tmp_path)}, timeout=60, check=False
    )
    assert done.stderr.splitlines()[-1] == "False", done.stderr
    assert "A [hash] table" in done.stdout


@pytest.mark.parametrize(
    ("content", "arguments", "says", "code"),
    [
        ('{"schema": "localspec.run/1"}', (), "line 1:", 1),
        (None, (), "Cannot read", 1),
        ("", ("--speed", "0"), "--speed is 0", 2),
        ("", ("--speed", "nan"), "--speed is nan", 2),
    ],
)
def test_what_is_wrong_is_one_line(
    home: dict[str, str],  # noqa: F811
    tmp_path: Path,
    content: str | None,
    arguments: tuple[str, ...],
    says: str,
    code: int,
) -> None:
    file = tmp_path / "a.jsonl"
    if content is not None:
        file.write_text(content)
    done = localspec(home, "replay", str(file), *arguments)
    assert done.returncode == code
    assert says in done.stderr
    assert "Traceback" not in done.stderr


async def test_on_the_screen_with_all_its_views_and_again() -> None:
    client = ReplayClient(recorded(), speed=1000)
    app = ChatApp(client, *_settings(client))
    app.conversation.submit(client.prompt)
    async with app.run_test(size=(120, 40)) as pilot:
        it = Driver(pilot, app, client)  # type: ignore[arg-type]
        await it.sees("SmolLM2 (replay)", "Why?", "[hash]", "SEGMENTS")
        await it.until(lambda: not it.chat.running, "the end of the answer")
        await it.press("f5")
        await it.until(lambda: it.screen.query(TokenView), "tokens")
        await it.sees("rejected")
        await it.press("f5", "ctrl+r")
        await it.until(lambda: len(it.chat.session.answers()) == 2 and not it.chat.running, "the second showing")
        assert it.chat.session.answers()[1].answer == it.chat.session.answers()[0].answer
        it.prompt.put("Something else")
        await it.press("enter")
        await it.sees("no model")


def test_a_trace_line_is_plain_json(tmp_path: Path) -> None:
    """What docs/views.md promises to other programs."""
    save(recorded(), tmp_path / "a.jsonl")
    _, round, *_ = (json.loads(line) for line in (tmp_path / "a.jsonl").read_text("utf-8").splitlines())
    assert set(round) == {
        *("t", "method", "source", "drafted", "accepted", "emitted", "p", "q", "limit", "finish", "pieces"),
        *("draft_s", "verify_s", "sample_s", "total_s"),
    }
    assert set(round["pieces"][0]) == {"token", "text", "provenance", "ghost"}
