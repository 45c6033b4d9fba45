"""Whatever a model writes is text: it does not crash the screen, vanish from it, or reach the terminal."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import replace

import pytest
from textual.widgets import Markdown

from localspec.engine.messages import Failed, Notice
from localspec.tui.widgets import answer_view
from localspec.tui.widgets.answer_view import AnswerView
from tests.tui.driving import WIDE, Driver, open_chat
from tests.tui.scripted import MODEL, READY, ScriptedClient, finished, text

HOSTILE = {
    "closing tag": ("[/", "[/"),
    "markup": ("see [bold]this[/bold] [@click=app.quit]here[/]", "see [bold]this[/bold] [@click=app.quit]here[/]"),
    "index": ("a[i] = b[/x] and [1] [/some/path]", "a[i] = b[/x] and [1] [/some/path]"),
    "escape": ("\x1b[2J\x1b]0;title\x07done", "␛[2J␛]0;title␇done"),
    "one-byte escape": ("a\x9b31mb", "a\N{REPLACEMENT CHARACTER}31mb"),
    "html": ("<div>kept</div> <br> <script>", "<div>kept</div> <br> <script>"),
    "dollar": ("$primary {color}", "$primary {color}"),
    "rtl": ("שלום עולם", "שלום עולם"),
    "override": ("\u202egnp.exe", "\N{REPLACEMENT CHARACTER}gnp.exe"),
    "wide": ("漢字かな", "漢字かな"),
    "combining": ("e\u0301\u0323 o\u0308", "e\u0301\u0323 o\u0308"),
    "emoji": ("👩‍👩‍👧 ok", "ok"),
    "separators": ("one\u2028two\x85three\x0cfour\x1cfive", "two\N{REPLACEMENT CHARACTER}three␌four␜five"),
    "poem": ("roses are red\nviolets are blue", "violets are blue"),
    "unclosed": ("**bold `code [link](", "**bold `code [link]("),
}


@pytest.fixture(autouse=True)
def every_piece_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a rest between appends, what arrives apart is appended apart."""
    monkeypatch.setattr(answer_view, "_REST", 0)


def pieces(whole: str, seed: int) -> list[str]:
    luck, cut, start = random.Random(seed), [], 0
    while start < len(whole):
        size = luck.randint(1, 9)
        cut.append(whole[start : start + size])
        start += size
    return cut


async def answer(it: Driver, *chunks: str) -> None:
    """Each chunk arrives in its own drain."""
    await it.say("Why?")
    for chunk in chunks:
        it.client.play(text(it.client.turn, chunk))
    it.client.play(finished(it.client.turn))
    await it.answered()


def answer_lines(it: Driver) -> list[str]:
    region = it.screen.query(AnswerView).last().query_one(Markdown).region
    lines = it.text.splitlines()[region.y : region.bottom]
    return [line[region.x : region.right].strip() for line in lines if line[region.x : region.right].strip()]


@pytest.mark.parametrize("name", HOSTILE)
async def test_an_answer_is_shown_as_it_was_written(name: str) -> None:
    written, shown = HOSTILE[name]
    async with open_chat() as it:
        await answer(it, written)
        await it.sees(shown)
        assert not it.toasts


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_question_is_shown_as_it_was_written(name: str) -> None:
    written, shown = HOSTILE[name]
    async with open_chat() as it:
        await it.say(written)
        await it.sees(shown)
        assert not it.toasts


async def test_nothing_that_is_drawn_is_a_control_character() -> None:
    everything = "".join(map(chr, (*range(0x20), *range(0x7F, 0xA0)))) + "\u2028\u2029\u202e\u2066"
    async with open_chat() as it:
        await answer(it, f"before {everything} after")
        await it.sees("before", "after")
        strips = it.screen._compositor.render_strips()
        drawn = "".join(segment.text for strip in strips for segment in strip)
        assert {
            c for c in drawn if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") or c in "\u202e\u2066"
        } == set()


@pytest.mark.parametrize(
    "code",
    ["```[/x]\ncode[/y]\n```", "```\x1b[31m\ncode\n```", "```python\nx[/y]\n", "~~~" + "é" * 300 + "\ncode\n~~~"],
)
async def test_a_code_block_may_call_its_language_anything(code: str) -> None:
    async with open_chat() as it:
        await answer(it, code)
        await it.until(lambda: "code" in it.text or "x[/y]" in it.text)
        assert not it.toasts


# A table that loses what seemed its last row to the block after it: Textual 8.2 fails on the second piece.
TABLE = "| a |\n|---|\n| 1 |\n"


@pytest.mark.parametrize("after", [("1", ". first\nend"), ("`", "``py\nx = 1\n```\nend"), ("~", "~~\nx\n~~~\nend")])
async def test_a_table_that_ends_in_another_block_is_drawn_whole(after: tuple[str, str]) -> None:
    async with open_chat() as whole:
        await answer(whole, TABLE + "".join(after))
        expected = answer_lines(whole)
    async with open_chat() as it:
        await answer(it, TABLE, *after)
        await it.sees("end")
        assert answer_lines(it) == expected
        assert not it.toasts


async def test_the_tooltip_of_a_table_cell_is_not_read_as_markup() -> None:
    async with open_chat() as it:
        await answer(it, "| head [/x] |\n|---|\n| cell [/y] |\n")
        await it.sees("cell [/y]")
        it.app.TOOLTIP_DELAY = 0.0
        for words in ("head [/x]", "cell [/y]"):
            row = next(n for n, line in enumerate(it.text.splitlines()) if words in line)
            column = it.text.splitlines()[row].index(words)
            await it.pilot.hover(offset=(column + 1, row))
            await it.pilot.pause(0.05)
        await it.sees("cell [/y]")


async def test_only_links_for_a_browser_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    async with open_chat() as it:
        monkeypatch.setattr(it.app, "open_url", lambda url, **_: opened.append(url))
        await answer(it, "[web](https://example.org/[x]) [file](ftp://example.org) [odd](x-app:run)")
        await it.sees("web file odd")
        row = next(n for n, line in enumerate(it.text.splitlines()) if "web file odd" in line)
        start = it.text.splitlines()[row].index("web file odd")
        for place in (start, start + 4, start + 9):
            await it.pilot.click(offset=(place, row))
        await it.until(lambda: opened)
        await it.pilot.pause()
    assert opened == ["https://example.org/[x]"]


MARKDOWN = """# A heading

Words with **bold**, *italics*, `code` and a [link](https://example.org).
A second line of the same paragraph.

1. one
2. two
   - nested
   - more

| a | b |
|---|---|
| 1 | 2 |

```python
def put(table, key):
    return table[hash(key) % len(table)]
```

> a quotation
> of two lines

<div>html</div> [/b] ␛[31m

---

The end.
"""


@pytest.mark.parametrize("seed", range(3))
async def test_an_answer_in_small_pieces_reads_like_the_whole(seed: int) -> None:
    size = (WIDE[0], 60)
    async with open_chat(size=size) as it:
        await answer(it, MARKDOWN)
        expected = answer_lines(it)
        assert expected[-1] == "The end."
    async with open_chat(size=size) as it:
        await answer(it, *pieces(MARKDOWN, seed))
        await it.sees("The end.")
        assert answer_lines(it) == expected


async def test_hostile_text_everywhere_else() -> None:
    name = "[/x] \x1b[31m model"
    async with open_chat(ScriptedClient(ready=False)) as it:
        await it.play(replace(READY, target=replace(MODEL, name=name, description=name), methods=("off", "[/y]")))
        await it.sees("[/x] ␛[31m model", "method off", "'lookup' does not work with this model.")
        await it.press("f3")
        await it.sees("method [/y]")
        await answer(it, "Because.")
        await it.sees("Because.")


async def test_what_did_not_come_through_the_editor_is_made_safe_too() -> None:
    async with open_chat() as it:
        it.chat.submit("a \x1b[31mquestion\x07")
        it.client.play(Notice("a \x1b[2J[/notice]", it.client.turn))
        it.client.play(Failed("a \x9bfailure [/x]", "a \x1bhint", 1, None))
        await it.sees("a ␛[31mquestion␇", "a ␛[2J[/notice]", "a \N{REPLACEMENT CHARACTER}failure [/x]", "a ␛hint")
