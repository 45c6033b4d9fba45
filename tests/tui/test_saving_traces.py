"""F9: a trace of the last answer, or a sentence that says why there is none."""

from __future__ import annotations

from pathlib import Path

from localspec.chat.trace_reading import read
from tests.tui.driving import open_chat
from tests.tui.scripted import finished, text


async def test_the_last_answer_is_saved_and_can_be_read(tmp_path: Path) -> None:
    async with open_chat(folder=tmp_path) as it:
        await it.say("Why [b]?")
        await it.play(text(it.client.turn, "Because."), finished(it.client.turn))
        await it.answered()
        await it.press("f9")
        await it.until(lambda: it.toasts, "a word about it")
        (file,) = tmp_path.iterdir()
        trace = read(file)
        assert trace.answer == it.chat.shown
        assert trace.header.prompt == "Why [b]?"
        assert file.name in "".join(it.toasts)
        await it.press("f9")
        await it.until(lambda: len(list(tmp_path.iterdir())) == 2, "a second file")


async def test_there_is_none_of_what_is_not_over(tmp_path: Path) -> None:
    async with open_chat(folder=tmp_path) as it:
        await it.press("f9")
        await it.until(lambda: it.toasts, "a word")
        assert "There is no answer yet." in it.toasts[0]
        await it.say("Why?")
        await it.play(text(it.client.turn, "Because"))
        await it.press("f9")
        await it.until(lambda: len(it.toasts) == 2, "a word")
        assert "still being written" in it.toasts[1]
        assert list(tmp_path.iterdir()) == []


async def test_a_folder_that_can_not_be_written_to(tmp_path: Path) -> None:
    async with open_chat(folder=tmp_path / "gone") as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "Because."), finished(it.client.turn))
        await it.answered()
        await it.press("f9")
        await it.until(lambda: it.toasts, "a word")
        assert "Cannot write the trace" in it.toasts[0]
