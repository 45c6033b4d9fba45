"""What a model thinks before it answers: drawn while it thinks, folded when the answer begins, opened on demand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.spec.types import Finish
from localspec.tui.widgets.thought_view import ThoughtView
from tests.tui.driving import open_chat
from tests.tui.scripted import READY, ScriptedClient, finished, text
from tests.tui.test_hostile import HOSTILE


async def test_a_thought_is_seen_then_folds_and_opens() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "<thi"))
        assert "<thi" not in it.text
        await it.play(text(it.client.turn, "nk>\nHm, [b]let me[/b] \x1b[31msee.\n</th"))
        await it.sees("thinking …", "Hm, [b]let me[/b] ␛[31msee.")
        assert "</th" not in it.text
        await it.play(text(it.client.turn, "ink>\n\nBecause."))
        await it.sees("▸ thought for", "Because.")
        assert "let me" not in it.text
        await it.press("alt+t")
        await it.sees("▾ thought for", "let me")
        await it.press("alt+t")
        await it.until(lambda: "let me" not in it.text)
        await it.play(finished(it.client.turn))
        await it.answered()
        await it.sees("▸ thought for", "Because.")


async def test_tab_reaches_the_thought_and_enter_opens_it() -> None:
    async with open_chat(ScriptedClient("<think>Hm.</think>Yes.")) as it:
        await it.say("Why?")
        await it.answered()
        for _ in range(5):
            if isinstance(it.app.focused, ThoughtView):
                break
            await it.press("tab")
        await it.press("enter")
        await it.sees("▾ thought for", "Hm.")


async def test_a_prompt_that_opens_the_thought(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tui.scripted.READY", replace(READY, thinks=True))
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "Hm, let me see."))
        await it.sees("thinking …", "Hm, let me see.")
        await it.play(text(it.client.turn, "\n</think>\nBecause."), finished(it.client.turn))
        await it.sees("▸ thought for", "Because.")
        assert "let me" not in it.text


async def test_a_stopped_thought_can_be_opened() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "<think>Hm, let"), finished(it.client.turn, Finish.CANCELLED))
        await it.sees("Hm, let", "stopped")


async def test_an_answer_without_thoughts_has_no_line_for_them() -> None:
    async with open_chat(ScriptedClient("a < b and <b>bold</b>")) as it:
        await it.say("Why?")
        await it.answered()
        await it.sees("a < b and <b>bold</b>")
        assert "thought for" not in it.text


async def test_an_answer_that_goes_on_after_a_stop_is_drawn_to_its_end() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "Because "))
        await it.play(finished(it.client.turn, Finish.CANCELLED, tail="of t\N{REPLACEMENT CHARACTER}"))
        await it.answered()
        it.prompt.put("/continue")
        await it.press("enter")
        await it.until(lambda: it.chat.running)
        await it.play(text(it.client.turn, "of it."), finished(it.client.turn))
        await it.sees("Because of it.")
        assert "\N{REPLACEMENT CHARACTER}" not in it.text


@pytest.mark.parametrize("written", HOSTILE)
async def test_hostile_thoughts_are_only_text(written: str) -> None:
    thought, shown = HOSTILE[written]
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, f"<think>{thought}"))
        await it.sees("thinking …", shown)
        await it.play(text(it.client.turn, "</think>Yes."), finished(it.client.turn))
        await it.press("alt+t")
        await it.sees("▾ thought for", shown, "Yes.")


async def test_a_setting_leaves_thoughts_out_until_they_are_opened() -> None:
    async with open_chat(thoughts=False) as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "<think>Hm, let me see."))
        await it.sees("thinking …")
        assert "let me" not in it.text
        await it.press("alt+t")
        await it.sees("let me see")
