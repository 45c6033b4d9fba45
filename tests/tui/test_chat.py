"""What a user does in the chat, and what stands on the screen then."""

from __future__ import annotations

from localspec.engine.messages import Notice, Stop, Use
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.widgets.transcript import Transcript
from tests.tui.driving import TINY, open_chat
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
