"""The figures on the screen are those of the rounds, in a wide terminal and in a narrow one."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.chat.numbers import percent
from localspec.commands.figures import against_plain
from localspec.engine.messages import Prefill
from localspec.spec.stats import Segment, fold
from localspec.spec.types import Round
from localspec.tui.widgets.stats_panel import StatsPanel
from localspec.tui.widgets.status_line import context_gauge
from tests.tui.driving import NARROW, TINY, WIDE, Driver, open_chat
from tests.tui.scripted import ScriptedClient, emitted, finished, rounds, text

WORDS = "some words that are long enough to be spoken in quite a few rounds of decoding " * 4


async def switched(it: Driver) -> list[Round]:
    """An answer that began plainly and went on with lookup."""
    await it.say("Why?")
    plain, fast = rounds(WORDS, method="off"), rounds(WORDS, method="lookup")
    await it.play(Prefill(it.client.turn, 1000, 1000, 640), emitted(it.client.turn, plain))
    await it.play(emitted(it.client.turn, fast), finished(it.client.turn))
    await it.answered()
    return [made for made, _ in (*plain, *fast)]


async def test_the_panel_shows_every_figure_with_its_counts() -> None:
    async with open_chat(size=(140, 45)) as it:
        stats = fold(await switched(it))
        await it.sees(
            "SPEED",
            "x plain (",
            f"{percent(stats.acceptance_rate)}  {stats.accepted} of {stats.tested}",
            f"{stats.mean_acceptance_length:.1f} tokens a round",
            "BY POSITION",
            f"{stats.per_position[0].accepted}/{stats.per_position[0].reached}",
            f"{stats.rounds} of them",
            "verify 9",
            "CONTEXT",
            "of 8,192 tokens",
            "SEGMENTS",
        )
        table = it.text[it.text.index("SEGMENTS") :].splitlines()
        off, lookup = (next(line for line in table[1:] if method in line).split() for method in ("off ", "lookup "))
        assert "–" in off
        assert "%" in lookup


async def test_the_panel_explains_itself_before_the_first_answer() -> None:
    async with open_chat() as it:
        await it.sees("The figures of an answer appear here", "0 of 8,192 tokens")


async def test_the_figures_of_a_sibling_are_its_own() -> None:
    async with open_chat(ScriptedClient(WORDS, "Short.")) as it:
        await it.say("Why?")
        await it.answered()
        first = [line for line in it.text.splitlines() if "ACCEPTANCE" in line]
        await it.press("ctrl+r")
        await it.answered()
        assert [line for line in it.text.splitlines() if "ACCEPTANCE" in line] != first
        await it.press("alt+left")
        await it.until(lambda: [line for line in it.text.splitlines() if "ACCEPTANCE" in line] == first)


@pytest.mark.parametrize("size", [NARROW, TINY])
async def test_a_narrow_terminal_has_one_line_and_f7_opens_the_panel(size: tuple[int, int]) -> None:
    async with open_chat(size=size) as it:
        stats = fold(await switched(it))
        await it.sees(f"{percent(stats.acceptance_rate)} · {stats.mean_acceptance_length:.1f} · lookup k=8", "F7")
        assert "SEGMENTS" not in it.text
        await it.press("f7")
        await it.sees("SPEED", "ACCEPTANCE", "F7 back")
        await it.press("pagedown", "pagedown", "pagedown")
        await it.sees("SEGMENTS")
        await it.press("escape")
        await it.until(lambda: "SEGMENTS" not in it.text)
        await it.sees("Why?" if size == NARROW else "tok/s")


async def test_f7_hides_the_panel_of_a_wide_terminal() -> None:
    async with open_chat(size=WIDE) as it:
        await switched(it)
        await it.sees("SEGMENTS")
        await it.press("f7")
        await it.until(lambda: "SEGMENTS" not in it.text)
        await it.sees("lookup k=8")


async def test_the_panel_comes_and_goes_with_the_width() -> None:
    async with open_chat(size=WIDE) as it:
        await switched(it)
        await it.pilot.resize_terminal(*NARROW)
        await it.until(lambda: "SEGMENTS" not in it.text)
        await it.pilot.resize_terminal(*WIDE)
        await it.sees("SEGMENTS")


async def test_numbers_change_at_most_five_times_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = 0
    follow = StatsPanel.follow

    def counted(panel: StatsPanel) -> None:
        nonlocal drawn
        drawn += 1
        follow(panel)

    async with open_chat() as it:
        await it.say("Why?")
        monkeypatch.setattr(StatsPanel, "follow", counted)
        for n in range(40):
            it.client.play(text(it.client.turn, f"word{n} "))
        await it.sees("word39")
        await it.until(lambda: not it.screen.stale)
        assert 0 < drawn <= 12  # 20 drains a second, every fourth one


def test_the_speed_against_plain_is_measured_or_not_said() -> None:
    plain = [made for made, _ in rounds(WORDS, method="off")]
    fast = Segment("lookup", replace(fold(plain), total_s=fold(plain).total_s / 2, drafts=1))
    assert against_plain(fast, fold(plain[:15])) == "against plain: not measured yet"
    assert against_plain(fast, fold(plain)).startswith("lookup: 2.00x plain")
    assert against_plain(Segment("off", fold(plain)), fold(plain)) == "plain decoding"


@pytest.mark.parametrize(
    ("used", "colour"), [(100, "$primary"), (800, "$warning"), (949, "$warning"), (950, "$error")]
)
def test_the_context_gauge_warns_before_it_is_too_late(used: int, colour: str) -> None:
    gauge = context_gauge(used, 1000)
    assert colour in {str(span.style) for span in gauge.spans}
    assert ("%" in gauge.plain) == (colour != "$primary")


async def test_the_status_line_keeps_the_method_when_there_is_no_room() -> None:
    async with open_chat(ScriptedClient("Because."), size=(40, 15)) as it:
        await it.say("Why?")
        await it.answered()
        last = it.text.splitlines()[-1]
        assert "method lookup" in last
        assert "seed" not in last


async def test_export_writes_both_files_and_names_them(tmp_path: Path) -> None:
    async with open_chat(ScriptedClient("First.", "Second."), folder=tmp_path) as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+r")
        await it.answered()
        await it.press("ctrl+s")
        (toast,) = it.toasts
        json_path, csv_path = map(Path, toast.splitlines())
        report = json.loads(json_path.read_text("utf-8"))
        assert report["schema"] == "localspec.session/1"
        assert report["environment"]["cpu"] == "a processor"
        assert report["environment"]["models"][0]["role"] == "target"
        assert len(report["answers"]) == 2
        with csv_path.open(encoding="utf-8", newline="") as file:
            assert len(list(csv.DictReader(file))) == 2
        await it.press("ctrl+s")
        assert len(list(tmp_path.iterdir())) == 4


async def test_an_export_that_fails_says_why_in_the_transcript(tmp_path: Path) -> None:
    async with open_chat(ScriptedClient("First."), folder=tmp_path / "missing [/x]") as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+s")
        await it.sees("Cannot write the statistics to", "[/x]: No such file", "folder that you may write to")
