"""Writing: several lines, large pastes, and whatever a paste may hold."""

from __future__ import annotations

from textual import events

from tests.tui.driving import Driver, open_chat
from tests.tui.scripted import ScriptedClient


async def paste(it: Driver, text: str) -> None:
    it.prompt.post_message(events.Paste(text))
    await it.until(lambda: it.prompt.text, "the paste")


async def test_enter_sends_and_the_editor_is_empty() -> None:
    async with open_chat() as it:
        await it.press(*"hello", "enter")
        await it.until(lambda: it.client.asked)
        assert it.client.asked[0].messages[-1].text == "hello"
        assert it.prompt.text == ""


async def test_shift_enter_and_ctrl_j_begin_a_new_line() -> None:
    async with open_chat() as it:
        await it.press(*"one", "shift+enter", *"two", "ctrl+j", *"three", "enter")
        await it.until(lambda: it.client.asked)
        assert it.client.asked[0].messages[-1].text == "one\ntwo\nthree"


async def test_keys_that_come_in_one_burst_lose_nothing() -> None:
    # A terminal hands over what was typed ahead in one piece; Enter must not overtake the letters before it.
    async with open_chat() as it:
        for key in (*"one", "enter", *"two", "enter", *"rest"):
            it.app.post_message(events.Key(key, key if len(key) == 1 else None))
        await it.until(lambda: it.prompt.text == "rest")
        assert it.client.asked[0].messages[-1].text == "one"
        assert it.chat.queue == ["two"]


async def test_nothing_is_sent_for_an_empty_prompt() -> None:
    async with open_chat() as it:
        await it.press("enter", "space", "enter")
        await it.pilot.pause()
        assert it.client.asked == []
        assert it.chat.queue == []


async def test_a_paste_of_several_lines_is_one_message() -> None:
    async with open_chat() as it:
        await paste(it, "one\r\ntwo\rthree\n")
        await it.press("enter")
        await it.until(lambda: it.client.asked)
        assert it.client.asked[0].messages[-1].text == "one\ntwo\nthree\n"


async def test_a_paste_of_100_kb_is_sent_whole_and_drawn_in_part() -> None:
    async with open_chat() as it:
        large = "a line of text that someone pasted\n" * 3000
        await paste(it, large)
        assert it.prompt.text == large
        await it.press("end", *"x", "enter")
        await it.until(lambda: it.client.asked)
        assert len(it.client.asked[0].messages[-1].text) == len(large) + 1
        await it.sees("more characters")


async def test_escape_sequences_in_a_paste_are_only_text() -> None:
    async with open_chat() as it:
        await paste(it, "\x1b[31mred\x07 [/b] a[i]")
        assert it.prompt.text == "␛[31mred␇ [/b] a[i]"
        await it.press("enter")
        await it.sees("␛[31mred␇ [/b] a[i]")


async def test_the_cursor_moves_in_a_text_of_several_lines() -> None:
    async with open_chat(ScriptedClient("1")) as it:
        await it.say("earlier")
        await it.answered()
        await it.press(*"one", "ctrl+j", *"two", "up", *"X")
        assert it.prompt.text == "oneX\ntwo"
        await it.press("up")
        assert it.prompt.text == "oneX\ntwo"
        assert it.screen.composer.editing is None


async def test_ctrl_d_quits_only_from_an_empty_prompt() -> None:
    async with open_chat() as it:
        await it.press(*"ab", "left", "ctrl+d")
        assert it.prompt.text == "a"
        assert it.app.is_running
        await it.press("backspace", "ctrl+d")
        await it.until(lambda: it.app._exit)
