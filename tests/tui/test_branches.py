"""Answering again, editing and queueing: nothing that was said is overwritten or lost."""

from __future__ import annotations

from localspec.spec.settings import Sampling
from localspec.tui.widgets.answer_view import AnswerView
from tests.tui.driving import open_chat
from tests.tui.scripted import ScriptedClient, finished, text


async def test_regenerating_adds_a_sibling_and_the_first_answer_stays() -> None:
    async with open_chat(ScriptedClient("First answer.", "Second answer.")) as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+r")
        await it.sees("Second answer.", "‹ 2/2 ›")
        assert "First answer." not in it.text
        await it.answered()
        await it.press("alt+left")
        await it.sees("First answer.", "‹ 1/2 ›")
        await it.press("alt+right")
        await it.sees("Second answer.", "‹ 2/2 ›")


async def test_the_arrows_of_a_sibling_mark_can_be_clicked() -> None:
    async with open_chat(ScriptedClient("First answer.", "Second answer.")) as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+r")
        await it.answered()
        name = it.screen.query(AnswerView).last().query_one(".name")
        arrow = it.text.splitlines()[name.region.y].index("‹") - name.region.x
        await it.pilot.click(name, offset=(arrow, 0))
        await it.sees("First answer.")


async def test_a_fixed_seed_is_said_before_the_same_text_comes_again() -> None:
    async with open_chat(ScriptedClient("One.", "One."), sampling=Sampling(temperature=0)) as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+r")
        await it.until(lambda: any("expect the same text" in toast for toast in it.toasts))


async def test_up_in_an_empty_prompt_edits_the_last_message_as_a_branch() -> None:
    async with open_chat(ScriptedClient("First answer.", "Second answer.")) as it:
        await it.say("Why red?")
        await it.answered()
        await it.press("up")
        await it.until(lambda: it.prompt.text == "Why red?")
        await it.sees("editing an earlier message")
        it.prompt.put("Why blue?")
        await it.press("enter")
        await it.sees("Why blue?", "Second answer.", "‹ 2/2 ›")
        assert "Why red?" not in it.text.partition("\n")[2]  # it is the title of the session
        assert [m.text for m in it.client.asked[-1].messages] == ["Why blue?"]
        await it.answered()
        await it.press("alt+left")
        await it.sees("Why red?", "First answer.")


async def test_up_again_goes_to_the_message_before_and_down_comes_back() -> None:
    async with open_chat(ScriptedClient("1", "2")) as it:
        for question in ("first", "second"):
            await it.say(question)
            await it.answered()
        for key, shown in (("up", "second"), ("up", "first"), ("up", "first"), ("down", "second"), ("down", "")):
            await it.press(key)
            await it.until(lambda shown=shown: it.prompt.text == shown, shown)
        assert it.screen.composer.editing is None


async def test_escape_leaves_editing_without_a_trace() -> None:
    async with open_chat(ScriptedClient("1")) as it:
        await it.say("first")
        await it.answered()
        await it.press("up")
        await it.until(lambda: it.screen.composer.editing)
        await it.press("escape")
        assert it.prompt.text == ""
        assert it.screen.composer.editing is None
        assert "editing" not in it.text
        await it.say("second")
        assert [m.text for m in it.client.asked[-1].messages] == ["first", "1", "second"]


async def test_an_edit_sent_while_an_answer_runs_is_not_lost() -> None:
    async with open_chat() as it:
        await it.say("first")
        await it.play(text(it.client.turn, "1"))
        await it.press("up")
        await it.until(lambda: it.screen.composer.editing)
        it.prompt.put("other")
        await it.press("enter")
        await it.until(lambda: it.toasts)
        assert it.prompt.text == "other"
        assert it.screen.composer.editing
        assert len(it.client.asked) == 1


async def test_prompts_sent_while_busy_queue_visibly_and_come_back_by_up() -> None:
    async with open_chat() as it:
        await it.say("one")
        await it.play(text(it.client.turn, "1"))
        await it.say("two")
        await it.say("three [/b]")
        await it.sees("queued  two", "queued  three [/b]", "2 waiting")
        await it.press("up")
        await it.until(lambda: it.prompt.text == "three [/b]")
        assert it.chat.queue == ["two"]
        await it.play(finished(it.client.turn))
        await it.until(lambda: len(it.client.asked) == 2)
        assert it.client.asked[1].messages[-1].text == "two"
        assert it.prompt.text == "three [/b]"


async def test_a_message_that_has_no_answer_yet_is_asked_by_the_key() -> None:
    async with open_chat() as it:
        it.chat.session.say("Why?")
        await it.press("ctrl+r")
        await it.until(lambda: it.client.asked, "the question")
        assert it.client.asked[0].messages[-1].text == "Why?"
