"""The view of an answer token by token, its cursor, and what is said about the token under it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.chat.message import Piece
from localspec.spec.types import Round
from localspec.tui.token_lines import TokenLines
from localspec.tui.widgets.inspector import Inspector
from localspec.tui.widgets.token_view import TokenView
from tests.tui.driving import NARROW, TINY, Driver, open_chat
from tests.tui.scripted import emitted, finished, one_round, rounds, text
from tests.tui.test_hostile import HOSTILE


def spoken(
    own: list[str], accepted: int, drafted: int, method: str = "lookup", ghost: str = ""
) -> tuple[Round, tuple[Piece, ...]]:
    made, pieces = one_round(own, method, drafted, accepted, 8, 1.0)
    made = replace(made, p=(0.82,) * made.tested, q=(1.0,) * made.tested)
    return made, (*pieces[:-1], replace(pieces[-1], ghost=ghost))


STORY = [
    spoken(["Once"], 0, 0, "off"),
    spoken([" upon", " a", " time"], 2, 4, ghost=" day\nof"),
    spoken([" there", " was"], 1, 1),
]


async def told(it: Driver, *more: tuple[Round, tuple[Piece, ...]]) -> TokenView:
    await it.say("Tell me a story.")
    await it.play(emitted(it.client.turn, [*STORY, *more]), finished(it.client.turn))
    await it.answered()
    return await opened(it)


async def opened(it: Driver) -> TokenView:
    await it.press("f5")
    await it.until(lambda: it.screen.query(TokenView) and it.screen.query(TokenView).last().size.height, "tokens")
    await it.until(lambda: it.screen.query_one(Inspector).display, "the legend")
    return it.screen.query(TokenView).last()


async def test_ghosts_stand_before_what_replaced_them() -> None:
    async with open_chat() as it:
        await told(it)
        await it.sees("Once upon a day↵of time there was")


async def test_the_legend_counts_what_the_answer_holds() -> None:
    async with open_chat() as it:
        await told(it)
        await it.sees("lookup 3   the model's own 2   plain 1   rejected 2")


async def test_no_two_kinds_of_token_look_the_same_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with open_chat() as it:
        view = await told(it)
        line = it.app.screen._compositor.render_strips()[view.region.y]
        looks = {segment.text.strip(): segment.style for segment in line if segment.text.strip()}
        own, plain, accepted, ghost = (looks[word] for word in ("time", "Once", "upon", "day↵of"))
        assert own.underline and not (plain.underline or accepted.underline or ghost.underline)
        assert ghost.strike and not (plain.strike or accepted.strike)
        assert accepted.bgcolor != plain.bgcolor == own.bgcolor
        assert looks["upon"].bgcolor != looks["a"].bgcolor, "neighbours part"


async def test_the_cursor_tells_about_each_token() -> None:
    async with open_chat(draft_tokens=8) as it:
        await told(it)
        await it.sees('" was"   round 3 · bonus')
        await it.press("home", "right")
        await it.sees(
            '" upon"   round 2 · lookup · position 1 of 4 · p 0.82 · q 1 · accepted with probability 0.82'
        )
        await it.press("right", "right")
        await it.sees('" time"   round 2 · correction', 'instead of " day↵of" by lookup')
        await it.press("home", "left")
        await it.sees('"Once"   round 1 · plain')


async def test_the_mouse_asks_too_and_a_click_keeps_the_focus() -> None:
    async with open_chat() as it:
        view = await told(it)
        await it.pilot.hover(TokenView, offset=(6, 0))
        await it.sees('" upon"   round 2')
        await it.pilot.click(TokenView, offset=(0, 0))
        await it.sees('"Once"   round 1')
        assert view.has_focus


async def test_up_and_down_stay_in_their_column() -> None:
    async with open_chat() as it:
        await told(it, spoken(["\n"], 0, 0), spoken(["Next"], 0, 0), spoken([" line"], 0, 0))
        await it.press("home", "down")
        await it.sees('"Next"')
        await it.press("down", "up")
        await it.sees('"Once"')


async def test_f5_and_a_letter_go_back_to_writing() -> None:
    async with open_chat() as it:
        view = await told(it)
        await it.press("H", "i")
        await it.until(lambda: it.prompt.text == "Hi", "the letters in the prompt")
        assert view.display
        await it.press("f5")
        await it.until(lambda: not view.display and it.prompt.has_focus, "the text")
        assert not it.screen.query_one(Inspector).display


async def test_help_explains_the_marks() -> None:
    async with open_chat() as it:
        await told(it)
        await it.press("f1")
        await it.sees("Struck through", "The token before")


async def test_one_answer_by_a_click_on_its_head() -> None:
    async with open_chat() as it:
        await it.say("One?")
        await it.play(text(it.client.turn, "First answer."), finished(it.client.turn))
        await it.say("Two?")
        await it.play(text(it.client.turn, "Second answer."), finished(it.client.turn))
        await it.answered()
        y, x = next(
            (y, line.index("tokens")) for y, line in enumerate(it.text.splitlines()) if "135M   tokens" in line
        )
        await it.pilot.click(offset=(x + 1, y))
        await it.until(lambda: it.screen.query(TokenView), "tokens")
        await it.until(lambda: it.screen.query(TokenView).first().size.height, "a drawn view")
        (view,) = it.screen.query(TokenView)
        assert [piece.text for piece in view.answer.pieces] == ["First", " answer", "."]


async def test_a_running_answer_costs_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_chat() as it:
        await it.say("Go on.")
        turn = it.client.turn
        await it.play(text(turn, "one two three "))
        await opened(it)
        added, add = [], TokenLines.add
        monkeypatch.setattr(
            TokenLines, "add", lambda self, token, *a: (added.append(token), add(self, token, *a))[1]
        )
        before = len(it.chat.shown.pieces)
        await it.play(text(turn, "four five "))
        await it.sees("three four five")
        await it.play(text(turn, "six"))
        await it.sees("five six")
        assert added == list(range(before, len(it.chat.shown.pieces)))
        await it.play(finished(turn))


async def test_answers_that_come_later_are_shown_as_tokens_too() -> None:
    async with open_chat() as it:
        await told(it)
        it.prompt.focus()
        await it.say("And then?")
        await it.play(text(it.client.turn, "The\nend."), finished(it.client.turn))
        await it.sees("The↵")


async def test_a_second_drafter_brings_letters() -> None:
    async with open_chat() as it:
        await told(it, spoken([" once", " more"], 1, 1, "suffix"), spoken([" again", " now"], 1, 1, "suffix"))
        await it.sees("OnceL upon a", "wasS once more again now", "L lookup 3   S suffix 2")


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_words_are_shown_as_they_are(name: str) -> None:
    written, _ = HOSTILE[name]
    async with open_chat() as it:
        view = await told(it, spoken([written, written], 1, 3, ghost=written))
        await it.press("end", "left")
        assert view.inspection() is not None
        assert "\x1b" not in it.text and "\u202e" not in it.text
        assert not it.toasts


@pytest.mark.parametrize("size", [TINY, NARROW, (200, 60)])
async def test_every_size_and_a_resize(size: tuple[int, int]) -> None:
    async with open_chat(size=size) as it:
        view = await told(it, *rounds("Many words of a longer answer, which has more than one line. " * 8))
        await it.press("home")
        await it.sees('"Once"   round 1')
        await it.pilot.resize_terminal(90, 20)
        await it.until(lambda: view._lines.width == view.size.width < 90, "lines of the new width")
        await it.press("end")
        await it.until(lambda: view.cursor == len(view.answer.pieces) - 1, "the last token")


async def test_a_long_answer_is_laid_out_once_and_drawn_where_it_is_seen() -> None:
    async with open_chat() as it:
        await it.say("Much.")
        many = rounds("word and word, " * 1500)
        await it.play(emitted(it.client.turn, many), finished(it.client.turn))
        await it.answered()
        drawn: list[int] = []
        view = await opened(it)
        render = view.render_line
        view.render_line = lambda y: (drawn.append(y), render(y))[1]  # type: ignore[method-assign]
        assert len(view.answer.pieces) > 4000
        await it.press("left", "left")
        await it.until(lambda: view.cursor == len(view.answer.pieces) - 3, "the cursor")
        assert len(set(drawn)) <= it.app.size.height < view.size.height
