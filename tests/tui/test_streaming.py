"""An answer as it grows: drawn once a drain, followed to its end, whole after a resize."""

from __future__ import annotations

import asyncio

import pytest
from textual.await_complete import AwaitComplete
from textual.widgets import Markdown

from localspec.engine.messages import Prefill
from localspec.tui.widgets import answer_view
from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.transcript import Transcript
from tests.tui.driving import TINY, WIDE, open_chat
from tests.tui.scripted import emitted, finished, rounds, text


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


async def test_two_draws_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer draws in a task of its own, a key on the screen's turn."""
    async with open_chat() as it:
        steps: list[str] = []

        async def slow(self: Transcript, *, figures: bool) -> None:
            steps.append("begin")
            await asyncio.sleep(0.05)
            steps.append("end")

        monkeypatch.setattr(Transcript, "follow", slow)
        await asyncio.gather(it.screen.draw(), it.screen.draw(figures=False))
        assert steps == ["begin", "end"] * (len(steps) // 2)
