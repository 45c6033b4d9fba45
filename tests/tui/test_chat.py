"""What a user does in the chat, and what stands on the screen then."""

from __future__ import annotations

import pytest
from textual.await_complete import AwaitComplete
from textual.widgets import Markdown

from localspec.engine.messages import Notice, Prefill, Stop, Use
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.widgets import answer_view
from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.transcript import Transcript
from tests.tui.driving import TINY, WIDE, open_chat
from tests.tui.scripted import READY, ScriptedClient, emitted, finished, rounds, text


async def test_the_first_screen_says_what_is_loaded_and_how_to_begin() -> None:
    async with open_chat() as it:
        await it.sees("SmolLM2 135M", "lookup", "Write a message", "context 8,192 tokens", "F1 help", "F3")


async def test_the_screen_is_there_before_the_model() -> None:
    async with open_chat(ScriptedClient(ready=False)) as it:
        await it.sees("loading SmolLM2 135M", "Write a message")
        await it.say("Why?")
        await it.sees("queued  Why?", "1 waiting for the model")
        await it.play(READY)
        await it.sees("SmolLM2 135M")
        assert it.client.asked[0].messages[-1].text == "Why?"
        await it.until(lambda: "queued" not in it.text)


async def test_an_answer_streams_and_ends_with_its_figures() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.sees("You", "Why?", "waiting for the first token")
        await it.play(text(it.client.turn, "Because of "))
        await it.sees("Because of", "Esc stop")
        await it.play(
            emitted(it.client.turn, rounds("**reasons** that are many", seed=3)), finished(it.client.turn)
        )
        await it.sees("Because of reasons that are many", "tok/s", "accepted")
        assert "**" not in it.text


async def test_reading_the_prompt_shows_how_far_it_is() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(Prefill(it.client.turn, 1240, 3100, 512))
        await it.sees("reading 1,240 of 3,100 tokens", "512 of them known already")


async def test_escape_stops_and_keeps_the_partial_answer() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "Half an answer"))
        await it.press("escape")
        await it.answered()
        assert isinstance(it.client.commands[-1], Stop)
        await it.sees("Half an answer", "stopped ·")


async def test_a_question_stopped_before_its_answer_is_in_the_editor_again() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.press("escape")
        await it.until(lambda: it.prompt.text == "Why?")
        assert it.chat.session.path == ()


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
        assert "Why red?" not in it.text
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
        assert it.screen.editing is None


async def test_escape_leaves_editing_without_a_trace() -> None:
    async with open_chat(ScriptedClient("1")) as it:
        await it.say("first")
        await it.answered()
        await it.press("up")
        await it.until(lambda: it.screen.editing)
        await it.press("escape")
        assert it.prompt.text == ""
        assert it.screen.editing is None
        assert "editing" not in it.text
        await it.say("second")
        assert [m.text for m in it.client.asked[-1].messages] == ["first", "1", "second"]


async def test_an_edit_sent_while_an_answer_runs_is_not_lost() -> None:
    async with open_chat() as it:
        await it.say("first")
        await it.play(text(it.client.turn, "1"))
        await it.press("up")
        await it.until(lambda: it.screen.editing)
        it.prompt.put("other")
        await it.press("enter")
        await it.until(lambda: it.toasts)
        assert it.prompt.text == "other"
        assert it.screen.editing
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


async def test_f3_switches_the_method_in_mid_answer() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(emitted(it.client.turn, rounds("Because of reasons ", method="lookup")))
        await it.press("f3")
        await it.sees("method off")
        assert it.client.used == [Use("off", 8)]
        await it.play(emitted(it.client.turn, rounds("that are many.", method="off")), finished(it.client.turn))
        await it.sees("lookup → off")


async def test_the_method_has_a_second_key_and_goes_round() -> None:
    async with open_chat() as it:
        await it.press("ctrl+t")
        await it.sees("+  off")
        await it.press("ctrl+t")
        await it.sees("+  lookup")
        assert it.client.used == []


async def test_f4_changes_the_draft_length_in_mid_answer() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.press("f4")
        await it.sees("length 12")
        assert it.client.used == [Use("lookup", 12)]
        await it.press("f4", "f4")
        await it.sees("length auto")
        assert it.client.used[-1] == Use("lookup", None)
        await it.press("f4")
        await it.sees("length 1 ")


async def test_the_status_line_shows_temperature_and_the_seed_that_was_used() -> None:
    async with open_chat(ScriptedClient("One."), sampling=Sampling(temperature=0.25)) as it:
        await it.sees("T 0.25")
        assert "seed" not in it.text
        await it.say("Why?")
        await it.sees("seed 1234567")


async def test_one_write_a_drain_however_many_events_came() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.until(lambda: it.screen.query(Markdown))
        writes: list[str] = []
        markdown = it.screen.query_one(AnswerView).query_one(Markdown)
        append = markdown.append
        markdown.append = lambda new: (writes.append(new), append(new))[1]  # type: ignore[method-assign]
        it.client.play(*(text(it.client.turn, f"word{n} ") for n in range(50)))
        await it.sees("word49")
        assert len(writes) == 1


async def test_a_20_kb_answer_takes_as_many_writes_as_drains() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.until(lambda: it.screen.query(Markdown))
        appended = 0
        markdown = it.screen.query_one(AnswerView).query_one(Markdown)
        append = markdown.append

        def counted(new: str):  # type: ignore[no-untyped-def]
            nonlocal appended
            appended += 1
            return append(new)

        markdown.append = counted  # type: ignore[method-assign]
        paragraph = "A sentence of an answer that goes on and on. " * 11 + "\n\n"
        drains = 10
        for _ in range(drains):  # 4 paragraphs of 500 characters a drain
            it.client.play(*(text(it.client.turn, paragraph) for _ in range(4)))
        it.client.play(text(it.client.turn, "The end."))
        await it.press(*"typed meanwhile")
        await it.sees("The end.")
        assert appended <= drains + 1
        assert it.prompt.text == "typed meanwhile"
        assert len(it.chat.shown.text) > 19_000


async def test_costly_text_is_drawn_seldom_and_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    now, written = 0.0, []
    append = Markdown.append

    def costly(markdown: Markdown, new: str) -> AwaitComplete:
        nonlocal now
        now += 1.0
        written.append(new)
        return append(markdown, new)

    async with open_chat() as it:
        await it.say("Why?")
        monkeypatch.setattr(answer_view, "monotonic", lambda: now)
        monkeypatch.setattr(Markdown, "append", costly)
        await it.play(text(it.client.turn, "one "))
        for word in ("two ", "three "):
            it.client.play(text(it.client.turn, word))
        await it.until(lambda: it.client.idle)
        assert written == ["one "]
        now += 5.0  # more than the rest: what is behind is drawn without a new event
        await it.sees("one two three")
        assert written == ["one ", "two three "]
        await it.play(text(it.client.turn, "four"), finished(it.client.turn))
        await it.sees("one two three four")  # the end does not wait


async def test_the_tail_is_followed_until_the_user_scrolls_away() -> None:
    async with open_chat(size=TINY) as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "line\n\n" * 30 + "the tail"))
        await it.sees("the tail")
        await it.press("pageup", "pageup")
        await it.until(lambda: "the tail" not in it.text)
        await it.play(text(it.client.turn, "\n\nmore"))
        assert "more" not in it.text.replace("F7 more", "")
        await it.press("pagedown", "pagedown", "pagedown")
        await it.until(lambda: "more" in it.text.replace("F7 more", ""))


async def test_a_resize_in_mid_stream_loses_nothing() -> None:
    async with open_chat(size=WIDE) as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "The beginning, "))
        await it.pilot.resize_terminal(*TINY)
        await it.play(text(it.client.turn, "the middle, "))
        await it.pilot.resize_terminal(200, 60)
        await it.play(text(it.client.turn, "the end."), finished(it.client.turn))
        await it.sees("The beginning, the middle, the end.")


async def test_help_explains_every_key_while_the_answer_goes_on() -> None:
    async with open_chat(size=(100, 50)) as it:
        await it.say("Why?")
        await it.press("f1")
        await it.sees("Switch the method", "Ctrl+R", "F3  Ctrl+T", "Esc closes")
        it.client.play(text(it.client.turn, "Because."), finished(it.client.turn))
        await it.until(lambda: it.chat.running is None)
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen))
        await it.sees("Because.")


async def test_help_can_be_read_in_a_small_terminal() -> None:
    async with open_chat(size=TINY) as it:
        await it.press("f1")
        await it.sees("Keys", "Send")
        await it.press("end")
        await it.sees("segments")


def test_every_binding_has_an_id_and_says_what_it_does() -> None:
    from localspec.tui.app import ChatApp
    from localspec.tui.widgets.prompt import Prompt

    bindings = [*ChatApp.BINDINGS, *ChatScreen.BINDINGS, *Prompt.BINDINGS]
    ids = [binding.id for binding in bindings]
    assert all(ids)
    assert len(set(ids)) == len(ids)
    assert all(binding.description for binding in bindings)


async def test_the_answer_can_be_copied_without_its_escape_sequences() -> None:
    async with open_chat(ScriptedClient("An **answer** \x1b[31m.")) as it:
        await it.press("ctrl+y")
        assert it.toasts == ["There is no answer to copy yet."]
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+y")
        assert it.app.clipboard == "An **answer** ␛[31m."


async def test_ctrl_c_stops_an_answer_and_does_not_quit() -> None:
    async with open_chat() as it:
        await it.press("ctrl+c")
        assert it.toasts == ["Ctrl+Q quits."]
        await it.say("Why?")
        await it.play(text(it.client.turn, "Because"))
        await it.press("ctrl+c")
        await it.answered()
        assert it.chat.shown.finish is Finish.CANCELLED


async def test_quitting_ends_the_engine() -> None:
    async with open_chat() as it:
        await it.press("ctrl+q")
    assert it.client.closed


async def test_the_palette_offers_the_chats_commands() -> None:
    async with open_chat(ScriptedClient("Because.")) as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+p")
        await it.pilot.pause(0.1)
        await it.press(*"copy the last", "enter")
        await it.until(lambda: it.app.clipboard == "Because.")


async def test_every_theme_can_draw_the_chat() -> None:
    async with open_chat(ScriptedClient("An **answer** with `code`.", "Another.")) as it:
        await it.say("Why?")
        await it.answered()
        await it.press("ctrl+r")
        await it.answered()
        for theme in it.app.available_themes:
            it.app.theme = theme
            await it.pilot.pause()
            assert "Another." in it.text
        assert not it.toasts


async def test_clicking_anywhere_keeps_the_cursor_in_the_prompt() -> None:
    async with open_chat() as it:
        await it.pilot.click(Transcript)
        await it.press(*"typed")
        assert it.prompt.text == "typed"


async def test_a_notice_stands_in_the_transcript() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(Notice("The template has no [system] role.", it.client.turn))
        await it.play(text(it.client.turn, "Because."), finished(it.client.turn))
        await it.sees("The template has no [system] role.", "Because.")
        assert it.text.index("[system]") > it.text.index("Why?")
