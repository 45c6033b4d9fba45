"""Long transcripts: rows for the end only, the rest on demand, and what is read stays where it is."""

from __future__ import annotations

import pytest

from localspec.tui.widgets.answer_view import AnswerView
from localspec.tui.widgets.earlier_row import EarlierRow
from localspec.tui.widgets.tail_hint import TailHint
from localspec.tui.widgets.transcript import _SLACK, MOST_ROWS, Transcript
from tests.tui.driving import NARROW, Driver, open_chat
from tests.tui.scripted import finished, text


def fill(it: Driver, turns: int) -> None:
    """Turns that were said before, as a session that is opened has them."""
    for number in range(turns):
        it.chat.submit(f"Question {number}.")
        turn = it.client.turn
        it.chat.fold(text(turn, f"Answer {number}."))
        it.chat.fold(finished(turn))
    it.screen.stale = True


def rows(it: Driver) -> int:
    return len(it.screen.query_one(Transcript)._rows)


async def filled(it: Driver, turns: int) -> Transcript:
    fill(it, turns)
    await it.until(lambda: not it.screen.stale, "a drawn screen")
    return it.screen.query_one(Transcript)


async def test_only_the_end_has_rows_and_no_message_is_lost() -> None:
    async with open_chat(size=NARROW) as it:
        await filled(it, 60)
        await it.sees("Answer 59.")
        assert rows(it) == MOST_ROWS
        assert len(it.chat.session.path) == 120
        assert it.screen.query_one(EarlierRow).display


async def test_rows_go_in_lots_while_the_chat_goes_on() -> None:
    async with open_chat(size=NARROW) as it:
        await filled(it, 20)
        most = 0
        for number in range(30):
            await it.say(f"More {number}")
            await it.play(text(it.client.turn, "Yes."), finished(it.client.turn))
            await it.answered()
            most = max(most, rows(it))
        assert MOST_ROWS <= most <= MOST_ROWS + _SLACK + 1
        assert len(it.chat.session.path) == 100
        await it.sees("More 29")


async def test_earlier_messages_come_on_demand_and_the_text_stays_in_place() -> None:
    async with open_chat(size=NARROW) as it:
        transcript = await filled(it, 60)
        transcript.scroll_home(animate=False)
        await it.sees("earlier messages: 80", "Question 40.")
        it.screen.query_one(EarlierRow).focus()
        place = it.text.splitlines().index(next(line for line in it.text.splitlines() if "Question 40." in line))
        await it.press("enter")
        await it.until(lambda: rows(it) == 2 * MOST_ROWS)
        await it.until(lambda: "Question 40." in it.text.splitlines()[place], "the message in its place")
        transcript.scroll_home(animate=False)
        await it.sees("earlier messages: 40", "Question 20.")


async def test_new_text_below_is_hinted_at_and_a_key_goes_there() -> None:
    async with open_chat(size=NARROW) as it:
        transcript = await filled(it, 20)
        await it.say("Long?")
        await it.play(text(it.client.turn, "line\n\n" * 20))
        assert not it.screen.query_one(TailHint).display
        await it.press("pageup")
        await it.until(lambda: not transcript.is_vertical_scroll_end)
        shown = transcript.scroll_y
        await it.play(text(it.client.turn, "line\n\n" * 20))
        await it.sees("new text below")
        assert transcript.scroll_y == shown
        await it.press("ctrl+end")
        await it.until(lambda: transcript.is_vertical_scroll_end)
        await it.play(text(it.client.turn, "the end"))
        await it.sees("the end")
        assert not it.screen.query_one(TailHint).display


async def test_no_row_goes_while_somebody_reads_above() -> None:
    async with open_chat(size=NARROW) as it:
        transcript = await filled(it, (MOST_ROWS + _SLACK) // 2)
        before = rows(it)
        await it.press("pageup")
        await it.until(lambda: not transcript.is_vertical_scroll_end)
        for number in range(5):
            it.chat.submit(f"More {number}")
            it.chat.fold(text(it.client.turn, "Yes."))
            it.chat.fold(finished(it.client.turn))
            it.screen.stale = True
            await it.until(lambda: not it.screen.stale)
        assert rows(it) == before + 10


async def test_an_edit_of_an_early_message_is_shown() -> None:
    async with open_chat(size=NARROW) as it:
        await filled(it, 60)
        it.screen.change(lambda: it.chat.edit(it.chat.session.path[2], "Otherwise?"))
        await it.sees("Question 0.", "Otherwise?")
        assert not it.screen.query_one(EarlierRow).display


@pytest.mark.parametrize("count", [50])
async def test_a_fast_stream_is_one_append_a_drain_and_keys_are_taken_between(
    monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    appends, drains = 0, 0
    append, drain = AnswerView._write, None

    async def counted(self: AnswerView, said: str) -> None:
        nonlocal appends
        appends += 1
        await append(self, said)

    monkeypatch.setattr(AnswerView, "_write", counted)
    async with open_chat() as it:
        drain = it.screen._drains
        await it.say("Why?")
        for number in range(count):
            it.client.play(*(text(it.client.turn, f"word{number} ") for _ in range(10)))
        await it.press("f4")
        drains = it.screen._drains - drain
        assert it.chat.draft_tokens != 8  # the key was not behind the stream
        await it.until(lambda: it.client.idle)
        assert appends <= count
    assert drains < count


async def test_a_resize_in_mid_stream_loses_nothing() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await it.play(text(it.client.turn, "one two "))
        for size in ((60, 15), (200, 60), (80, 24)):
            await it.pilot.resize_terminal(*size)
            await it.play(text(it.client.turn, f"at{size[0]} "))
            await it.sees(f"at{size[0]}")
        await it.play(finished(it.client.turn))
        await it.sees("one two at60 at200 at80")
