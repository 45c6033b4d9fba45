"""When something breaks: the conversation stays, the reason is on the screen, and there is a way on."""

from __future__ import annotations

import logging

import pytest

from localspec.engine.messages import Died, Failed, Load
from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.stats_panel import StatsPanel
from localspec.tui.widgets.status_line import StatusLine
from localspec.tui.widgets.title_line import TitleLine
from tests.tui.driving import TINY, open_chat
from tests.tui.scripted import READY, ScriptedClient, finished, text


async def test_an_engine_killed_in_mid_answer_leaves_the_chat_alive() -> None:
    async with open_chat(ScriptedClient("A first answer.")) as it:
        await it.say("one")
        await it.answered()
        await it.say("two")
        await it.play(text(it.client.turn, "Half of a second"), Died("killed by signal 9 (SIGKILL)"))
        await it.sees(
            "A first answer.",
            "Half of a second",
            "interrupted ·",
            "The engine stopped: killed by signal 9 (SIGKILL).",
            "F8 reloads the model",
        )
        await it.say("three")
        await it.sees("queued  three", "F8 reloads")
        await it.press("f8")
        await it.until(lambda: len(it.client.asked) == 3)
        assert it.client.starts == 2
        assert [m.text for m in it.client.asked[-1].messages] == [
            *("one", "A first answer.", "two", "Half of a second", "three")
        ]
        await it.play(text(it.client.turn, "A third."), finished(it.client.turn))
        await it.sees("A third.")


async def test_ctrl_l_reloads_too() -> None:
    async with open_chat() as it:
        await it.play(Died("it ended with exit code 3"))
        await it.sees("engine stopped")
        await it.press("ctrl+l")
        await it.until(lambda: it.client.starts == 2)
        await it.sees("+  lookup")


async def test_a_question_that_failed_is_in_the_editor_again() -> None:
    async with open_chat() as it:
        await it.say("much too [/long")
        await it.play(Failed("The prompt has [9,000] tokens [/].", "Shorten it.", 2, it.client.turn))
        await it.sees("The prompt has [9,000] tokens [/].", "Shorten it.")
        assert it.prompt.text == "much too [/long"
        assert it.chat.session.path == ()


async def test_what_was_typed_since_is_kept_behind_the_question_that_comes_back() -> None:
    async with open_chat() as it:
        await it.say("first")
        await it.press(*"second")
        await it.play(Failed("No.", "", 1, it.client.turn))
        await it.until(lambda: it.prompt.text == "first\nsecond", it.prompt.text)


async def test_a_model_that_cannot_be_loaded_says_why_and_can_be_tried_again() -> None:
    async with open_chat(ScriptedClient(ready=False)) as it:
        await it.play(Failed("Cannot load /models/[x].gguf: it is empty", "Download it again."))
        await it.sees("could not be loaded", "Cannot load /models/[x].gguf: it is empty", "F8 tries again, F2")
        it.client.ready = True
        await it.press("f8")
        await it.sees("+  lookup")
        assert [type(command) for command in it.client.commands] == [Load, Load]


async def test_keys_without_a_model_explain_themselves() -> None:
    async with open_chat(ScriptedClient(ready=False)) as it:
        for key in ("f3", "ctrl+r", "ctrl+s", "ctrl+y"):
            await it.press(key)
        assert it.toasts == [
            "No model is loaded.",
            "There is no answer yet.",
            "There is no answer yet, so there is nothing to export.",
            "There is no answer to copy yet.",
        ]
        await it.press("escape", "alt+left", "f4", "f7", "f7")


async def test_a_model_without_speculation_says_so_at_f3() -> None:
    from dataclasses import replace

    async with open_chat(ScriptedClient(ready=False)) as it:
        await it.play(replace(READY, methods=("off",)))
        await it.press("f3")
        assert it.toasts == ["This model decodes plainly: there is no other method."]


@pytest.mark.parametrize(
    "place", [(StatsPanel, "follow"), (StatusLine, "drawn"), (TitleLine, "drawn"), (AnswerView, "_figures")]
)
async def test_a_bug_is_logged_and_shown_once_and_the_chat_goes_on(
    place: tuple[type, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("a bug [/b]")

    async with open_chat() as it:
        monkeypatch.setattr(*place, broken)
        await it.say("Why?")
        for word in ("Because ", "of ", "reasons."):
            it.client.play(text(it.client.turn, word))
        await it.until(lambda: it.toasts and it.client.idle)
        monkeypatch.undo()
        await it.play(finished(it.client.turn))
        await it.answered()
        await it.sees("Because of reasons.")
        assert it.toasts == ["ZeroDivisionError('a bug [/b]')"]
    logged = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert len(logged) == 1
    assert logged[0].exc_info


async def test_the_end_of_a_long_note_is_in_view() -> None:
    async with open_chat(ScriptedClient(ready=False), size=TINY) as it:
        await it.play(Failed("Cannot load it: " + "a long reason, " * 40, "The way out."))
        await it.sees("The way out.")
