"""Commands in the prompt: the list, completion, what each does, and what happens to one that is not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets._toast import Toast

from localspec.commands import COMMANDS
from localspec.conversation import Conversation, Options
from localspec.spec.settings import Sampling
from localspec.tui.app import ChatApp
from localspec.tui.completion import files_under, offer
from localspec.tui.slash import OWN
from localspec.tui.widgets.suggestions import Suggestions
from tests.tui.driving import LOAD, NARROW, TINY, Driver, open_chat
from tests.tui.scripted import ScriptedClient
from tests.tui.talk import OPTIONS


def listed(it: Driver) -> list[str]:
    found = it.screen.query_one(Suggestions).offer
    return [item.shown for item in found.items] if found else []


async def typed(it: Driver, text: str) -> None:
    await it.press(*("space" if letter == " " else "slash" if letter == "/" else letter for letter in text))
    await it.until(lambda: it.prompt.text == text, text)


async def test_a_slash_lists_commands_and_letters_narrow_them() -> None:
    async with open_chat() as it:
        await typed(it, "/")
        await it.sees("/method NAME", "switch the drafting method")
        await typed_more(it, "mtd", "/mtd")
        assert listed(it)[0] == "/method NAME"
        marks = it.screen.query_one(Suggestions).offer.items[0].marks  # type: ignore[union-attr]
        assert "".join("/method"[place] for place in marks) == "mtd"


async def typed_more(it: Driver, keys: str, whole: str) -> None:
    await it.press(*keys)
    await it.until(lambda: it.prompt.text == whole, whole)


async def test_tab_completes_then_shows_the_argument_and_enter_runs() -> None:
    async with open_chat() as it:
        await typed(it, "/meth")
        await it.press("tab")
        assert it.prompt.text == "/method "
        await it.sees("off", "lookup", "/method NAME")
        await it.press("o", "f", "enter")
        await it.until(lambda: it.chat.method == "off")
        assert it.prompt.text == ""
        assert any("Method off" in toast for toast in it.toasts)


async def test_keys_in_one_burst_complete_and_run() -> None:
    from textual import events

    async with open_chat() as it:
        for key in ("slash", "s", "t", "a", "t", "s", "enter"):
            it.app.post_message(events.Key(key, "/" if key == "slash" else key if len(key) == 1 else None))
        await it.until(lambda: it.toasts == ["No answer yet."])
        assert it.client.asked == []


async def test_down_chooses_and_enter_takes_it() -> None:
    async with open_chat() as it:
        await typed(it, "/draft ")
        await it.press("down", "down", "enter")
        await it.until(lambda: it.chat.draft_tokens == 1)


async def test_escape_closes_the_list_and_stops_nothing() -> None:
    async with open_chat() as it:
        await it.say("Why?")
        await typed(it, "/m")
        await it.press("escape")
        assert listed(it) == []
        assert not it.chat.stopping
        await it.press("e")
        assert listed(it) == []
        await it.press("escape")
        await it.until(lambda: not it.chat.running)


async def test_an_unknown_command_stays_in_the_editor_and_the_nearest_is_named() -> None:
    async with open_chat() as it:
        it.prompt.put("/metod off")
        await it.press("enter")
        await it.until(lambda: it.toasts)
        assert "Did you mean /method?" in it.toasts[0]
        assert it.prompt.text == "/metod off"
        assert it.client.asked == []


@pytest.mark.parametrize(
    ("text", "sent"), [("//help", "/help"), ("/etc/hosts", "/etc/hosts"), ("/* no */", "/* no */")]
)
async def test_a_literal_slash(text: str, sent: str) -> None:
    async with open_chat() as it:
        await it.say(text)
        assert it.client.asked[0].messages[-1].text == sent


async def test_settings_reach_the_next_answer() -> None:
    async with open_chat() as it:
        for line in ("/set temperature 0.1", "/verifier token", "/system Be brief."):
            it.prompt.put(line)
            await it.press("enter")
        await it.say("Hi")
        asked = it.client.asked[0]
        assert (asked.sampling.temperature, asked.verifier, asked.messages[0].text) == (0.1, "token", "Be brief.")


async def test_a_wrong_value_says_what_is_allowed() -> None:
    async with open_chat() as it:
        it.prompt.put("/set top_p 2")
        await it.press("enter")
        await it.until(lambda: it.toasts)
        assert "above 0 and at most 1" in it.toasts[0]
        assert it.prompt.text == "/set top_p 2"


async def test_a_list_stays_in_the_transcript() -> None:
    async with open_chat() as it:
        it.prompt.put("/set")
        await it.press("enter")
        await it.sees("temperature 0.8 (default 0.8)")


async def test_edit_brings_the_last_message_back() -> None:
    async with open_chat(ScriptedClient("1", "2")) as it:
        await it.say("Hi")
        await it.answered()
        it.prompt.put("/edit")
        await it.press("enter")
        await it.until(lambda: it.screen.composer.editing)
        assert it.prompt.text == "Hi"
        await it.press("escape")
        it.prompt.put("/edit Ho")
        await it.press("enter")
        await it.until(lambda: len(it.client.asked) == 2)
        assert it.client.asked[1].messages[-1].text == "Ho"


async def test_copy_takes_the_answer_or_its_last_block_of_code(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = "<think>Hm.</think>One:\n\n```\na\n```\n\nTwo:\n\n```py\nb = [1]\n```\n"
    async with open_chat(ScriptedClient(answer)) as it:
        copied: list[str] = []
        monkeypatch.setattr(it.app, "copy_to_clipboard", copied.append)
        await it.say("Hi")
        await it.answered()
        for line in ("/copy code", "/copy"):
            it.prompt.put(line)
            await it.press("enter")
        await it.until(lambda: len(copied) == 2)
        assert copied[0] == "b = [1]\n"
        assert copied[1].startswith("One:") and "Hm." not in copied[1]


async def test_export_writes_figures_or_the_conversation(tmp_path: Path) -> None:
    async with open_chat(ScriptedClient("Yes."), folder=tmp_path) as it:
        await it.say("Hi")
        await it.answered()
        for line in ("/export", "/export conversation", f"/export conversation {tmp_path / 'talk.json'}"):
            it.prompt.put(line)
            await it.press("enter")
        await it.until(lambda: len(it.toasts) == 3)
        assert len(list(tmp_path.glob("localspec-*.csv"))) == 1
        (talk,) = tmp_path.glob("localspec-*.md")
        assert "Yes." in talk.read_text()
        assert '"localspec.conversation/1"' in (tmp_path / "talk.json").read_text()
        it.prompt.put("/export talk.json")
        await it.press("enter")
        await it.until(lambda: len(it.toasts) == 4)
        assert "/export conversation talk.json" in it.toasts[-1]
        assert it.prompt.text == "/export talk.json"


async def test_the_word_that_exports_the_conversation_is_completed() -> None:
    async with open_chat() as it:
        await typed(it, "/export co")
        assert listed(it) == ["conversation"]


async def test_siblings_by_a_command() -> None:
    async with open_chat(ScriptedClient("One.", "Two.")) as it:
        await it.say("Hi")
        await it.answered()
        it.prompt.put("/again")
        await it.press("enter")
        await it.sees("Two.")
        await it.answered()
        it.prompt.put("/sibling older")
        await it.press("enter")
        await it.sees("One.", "1/2")
        assert "Answer 1 of 2." in it.toasts


async def test_a_chat_with_one_model_loads_no_other() -> None:
    async with open_chat() as it:
        it.prompt.put("/model demo")
        await it.press("enter")
        await it.until(lambda: it.toasts == ["This chat has one model only."])


async def test_figures_stay_in_the_transcript() -> None:
    async with open_chat(ScriptedClient("Some words that were drafted by somebody.")) as it:
        await it.say("Hi")
        await it.answered()
        it.prompt.put("/stats")
        await it.press("enter")
        await it.sees("speed: ", "context: ")


async def test_a_theme_by_name() -> None:
    async with open_chat() as it:
        it.prompt.put("/theme localspec-contrast")
        await it.press("enter")
        await it.until(lambda: it.app.theme == "localspec-contrast")
        it.prompt.put("/theme localspec-contrats")
        await it.press("enter")
        await it.until(lambda: any("localspec-contrast" in toast for toast in it.toasts[1:]))


def test_every_command_is_done_by_somebody() -> None:
    assert [command.name for command in COMMANDS if command.act is None and command.name not in OWN] == []
    assert OWN.keys() <= {command.name for command in COMMANDS}


def test_no_name_means_two_commands() -> None:
    names = [name for command in COMMANDS for name in command.names]
    assert len(names) == len(set(names))


async def test_a_file_is_completed_and_attached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print(1)")
    async with open_chat() as it:
        await it.press(*"see", "space", "at", *"mp")
        await it.until(lambda: listed(it) == ["src/main.py"])
        await it.press("tab")
        assert it.prompt.text == "see @src/main.py "
        await it.press("enter")
        await it.until(lambda: it.client.asked)
        assert "File src/main.py:\n```py\nprint(1)\n```" in it.client.asked[0].messages[-1].text


async def test_a_missing_file_is_named_and_the_text_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_chat() as it:
        it.prompt.put("see @src/main.py")
        await it.press("enter")
        await it.until(lambda: it.toasts)
        assert "src/main.py" in it.toasts[0]
        assert it.prompt.text == "see @src/main.py"
        assert it.client.asked == []


HOSTILE_NAMES = (
    "[bold]a[/].md",
    "[/x].md",
    "\x1b[31mred.md",
    "two\nlines.md",
    "שלום.md",
    "漢字.md",
    "e\u0301\u0323.md",
)


async def test_hostile_names_of_files_are_only_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in HOSTILE_NAMES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    async with open_chat() as it:
        await it.press("at", *"md")
        await it.sees("[bold]a[/].md", "␛[31mred.md", "two␊lines.md", "漢字.md", "שלום.md")
        assert len(listed(it)) == len(HOSTILE_NAMES)


def test_hidden_and_ignored_folders_are_left_out_and_near_files_come_first(tmp_path: Path) -> None:
    for name in ("a/b/deep.py", ".git/config", "node_modules/x.js", "logs/l.txt", "near.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("logs/\n*.pyc\n")
    assert list(files_under(tmp_path)) == ["near.py", "a/b/deep.py"]


def test_the_walk_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localspec.tui.completion._MOST_FILES", 3)
    for number in range(9):
        (tmp_path / f"{number}").write_text("")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert len(list(files_under(tmp_path))) == 3


@pytest.mark.parametrize(
    ("before", "there"), [("mail@host", False), ("//x", False), ("a /x", False), ("a @x", True)]
)
def test_where_a_list_opens(before: str, there: bool) -> None:
    chat = Conversation(ScriptedClient(), LOAD, Options("demo", "off", None, Sampling()))
    assert (offer(before, chat, ["x.py"]) is not None) == there


@pytest.mark.parametrize("size", [NARROW, TINY])
async def test_the_list_fits_a_small_terminal(size: tuple[int, int]) -> None:
    async with open_chat(size=size) as it:
        await typed(it, "/")
        await it.sees("/method NAME")
        assert it.prompt.region.bottom < size[1]
        assert it.screen.query_one(Suggestions).region.height >= 3


async def test_what_a_command_says_does_not_cover_the_prompt() -> None:
    client = ScriptedClient()
    app = ChatApp(client, LOAD, OPTIONS)
    async with app.run_test(size=NARROW, notifications=True) as pilot:
        it = Driver(pilot, app, client)
        await it.until(lambda: it.chat.methods)
        it.prompt.put("/stats")
        await it.press("enter")
        await it.until(lambda: app.screen.query(Toast) and app.screen.query(Toast).last().region.height)
        assert app.screen.query(Toast).last().region.bottom <= it.prompt.region.y
