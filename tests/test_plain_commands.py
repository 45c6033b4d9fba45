"""Commands of the line chat: what the screen has keys and views for, as lines."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.chat.keeper import Keeper
from localspec.chat.store import Store
from localspec.chat.trace_reading import read
from localspec.commands import COMMANDS
from localspec.conversation import Conversation, Options
from localspec.engine.messages import Command, Died, Event, Failed, Generate, Load, Notice, Stop
from localspec.model import ModelSpec
from localspec.opening import Choice
from localspec.plain import PlainChat
from localspec.spec.settings import Sampling
from tests.racing import lane
from tests.test_plain import Lines, chat  # noqa: F401  (a fixture)
from tests.tui.driving import LOAD
from tests.tui.scripted import ScriptedClient, text

WORDS = "one two three four five six"
GREEDY = Sampling(temperature=0, seed=7)


class Racing(ScriptedClient):
    """Answers the two runs of a race with these words, in rounds of one token and of three."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self.words = words

    def send(self, command: Command) -> None:
        if isinstance(command, Generate) and command.turn < 0:
            self.commands.append(command)
            self.run(command.turn)
        else:
            super().send(command)

    def run(self, turn: int) -> None:
        for event in lane(turn, self.words[-1 - turn], 1 if turn == -1 else 3):
            self.play(event)


@pytest.fixture
def greedy(chat: Lines) -> Lines:  # noqa: F811
    chat.client = Racing(WORDS, WORDS)
    chat.options = replace(chat.options, sampling=GREEDY)
    return chat


def test_each_command_is_done_or_says_what_to_do_instead(chat: Lines) -> None:  # noqa: F811
    plain = PlainChat(Conversation(chat.client, LOAD, chat.options), chat.client, Path())
    done = {command.name for command in COMMANDS if command.act} | plain._own.keys() | {"quit"}
    assert [command.name for command in COMMANDS if command.name not in done and not command.instead] == []
    assert plain._own.keys() <= {command.name for command in COMMANDS}


def test_a_race_is_five_lines(greedy: Lines) -> None:
    out, err = greedy("Count.", "/race", replies=("Well.",))
    assert out == "Well.\n", "a race is beside the conversation"
    assert (
        "Race: seed 7 · T 0 · at most 256 tokens each. Ctrl+C stops it.\n"
        "1 of 2: plain is written\n"
        "2 of 2: lookup is written\n"
        "plain: 6 tokens in 3.0 s, 2.0 tok/s\n"
        "lookup k=8: 6 tokens in 0.5 s, 12 tok/s\n"
        "lookup 0.5 s against plain 3.0 s: 6.00x\n"
        "same 6 tokens\n"
    ) in err
    assert [message.text for message in greedy.chat.session.messages()] == ["Count.", "Well."]


def test_a_race_says_where_the_answers_part(greedy: Lines) -> None:
    greedy.client = Racing(WORDS, "one two three")
    _, err = greedy("Count.", "/race", replies=("Well.",))
    assert 'same 3 tokens, then " four" in plain and the end in lookup' in err
    assert "lookup 12 tok/s against plain 2.0 tok/s: 6.00x" in err


def test_there_is_a_sentence_where_there_can_be_no_race(greedy: Lines) -> None:
    _, err = greedy("/race")
    assert "A race takes your last message as its prompt, and there is none.\n  Ask something first." in err


def test_ctrl_c_stops_a_race_and_the_chat_goes_on(greedy: Lines) -> None:
    class Pressed(Racing):
        """Somebody presses Ctrl+C while the first of the two is written."""

        pressed = False

        def run(self, turn: int) -> None:
            self.pressed = True

        def poll(self) -> list[Event]:
            if self.pressed:
                self.pressed = False
                raise KeyboardInterrupt
            return super().poll()

    greedy.client = Pressed()
    out, err = greedy("Count.", "/race", "And on.", replies=("Well.", "Yes."))
    assert "The race was stopped." in err and Stop() in greedy.client.commands
    assert out == "Well.\nYes.\n"


def test_a_death_in_a_race_is_said_and_reload_is_the_way_on(greedy: Lines) -> None:
    class Dying(Racing):
        def run(self, turn: int) -> None:
            self.play(Notice("The drafter [x] was left out.", turn=turn), Died("killed"))

    greedy.client = Dying()
    out, err = greedy("Count.", "/race", "Lost?", "/reload", replies=("Well.", "Found."))
    assert "The engine stopped.\nThe drafter [x] was left out." in err
    assert "The conversation is safe. /reload reloads the model." in err
    assert "The message waits: no model is loaded.\n  /reload loads it again." in err
    assert out == "Well.\nFound.\n"


def test_a_trace_is_saved_and_can_be_read(chat: Lines, tmp_path: Path) -> None:  # noqa: F811
    _, err = chat("/trace", "Why [b]?", "/trace", replies=("Because.",))
    assert "There is no answer yet." in err
    (file,) = tmp_path.glob("*.trace.jsonl")
    assert f"Wrote {file}." in err and "localspec replay" in err
    trace = read(file)
    assert trace.answer == chat.chat.shown
    assert trace.header.prompt == "Why [b]?" and not trace.header.thinks


def test_the_conversation_is_exported_by_its_word_and_figures_without(chat: Lines, tmp_path: Path) -> None:  # noqa: F811
    lines = ("/export conversation a.md", "/export conversation a.json", "/export conversation", "/export")
    _, err = chat("Hi", *lines, "/export a.md", "/export conversation a.md", replies=("Yes.",))
    assert "Yes." in (tmp_path / "a.md").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["schema"] == "localspec.conversation/1"
    assert len(list(tmp_path.glob("localspec-*.md"))) == 1
    (figures,) = tmp_path.glob("localspec-*.json")
    assert json.loads(figures.read_text())["schema"] == "localspec.session/1"
    assert list(tmp_path.glob("localspec-*.csv"))
    assert "named like a file.\n  /export conversation a.md writes what was said." in err
    assert "Cannot write a.md: File exists." in err


def test_tokens_are_text_with_a_legend(chat: Lines) -> None:  # noqa: F811
    _, err = chat("/tokens", "Hi", "/tokens", replies=("Some words that lookup drafted.",))
    assert "There is no answer yet." in err
    assert "{+" in err and "drafted by lookup and accepted" in err


def test_figures_are_those_of_the_panel(chat: Lines) -> None:  # noqa: F811
    words = "some words that are long enough for several rounds " * 4
    _, err = chat("/stats", "Hi", "/method off", "/again", "/stats", replies=(words, words))
    assert "No answer yet." in err
    assert "speed: plain decoding" in err
    assert "context: " in err and " of 8,192 tokens" in err


def test_settings_are_a_list(chat: Lines) -> None:  # noqa: F811
    _, err = chat("/settings")
    assert "temperature 0.8 (default 0.8)" in err


def test_a_copy_needs_a_terminal(chat: Lines, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    answer = "One:\n\n```py\nb = 1\n```\n"
    _, err = chat("/copy", "Hi", "/copy", replies=(answer,))
    assert "There is no answer to copy yet." in err
    assert "no terminal here" in err and "/export conversation FILE.md" in err
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    out, err = chat("Hi", "/copy code", replies=(answer,))
    assert f"\x1b]52;c;{base64.b64encode(b'b = 1' + bytes([10])).decode()}\x07" in out
    assert "Copied the code: 6 characters." in err


def test_siblings_are_listed_and_shown(chat: Lines) -> None:  # noqa: F811
    lines = ("/sibling", "Hi", "/again", "/sibling", "/sibling older", "/sibling older", "/sibling 2", "/sibling x")
    _, err = chat(*lines, replies=("First.", "Second."))
    assert "Nothing here was answered or asked twice." in err
    assert "Answer 2 of 2 is shown.\n1  First.\n2  Second.\n" in err
    assert "Answer 1 of 2.\nYou: Hi\ndemo: First.\n" in err
    assert "There is no answer 'older' beside this one." in err and "There is no answer 'x'" in err
    assert [message.text for message in chat.chat.session.messages()] == ["Hi", "Second."]


def test_the_sibling_of_a_message_has_its_own_answer(chat: Lines) -> None:  # noqa: F811
    _, err = chat("Hi", "/edit Ho", "/sibling older", replies=("One.", "Two."))
    assert "Message 1 of 2.\nYou: Hi\ndemo: One.\n" in err


def test_the_end_of_a_session_is_printed_where_it_is_opened(chat: Lines) -> None:  # noqa: F811
    _, err = chat("Hi", "/new", "Ho", "/open Hi", replies=("<think>Hm.</think>One.", "Two."))
    assert "Hi: 2 messages.\nYou: Hi\ndemo: One.\n" in err


def test_the_end_of_a_session_is_printed_where_the_chat_goes_on(
    chat: Lines,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = Store(tmp_path / "s.db")
    chat.keeper = Keeper(store)
    chat("Hi", replies=("One.",))
    (row,) = store.sessions()
    store.release(row.id)
    again = Conversation(ScriptedClient(), LOAD, chat.options, Keeper(store))
    again.open_session(row.id)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    PlainChat(again, again._client, tmp_path).run()
    assert "You: Hi\ndemo: One.\nType a message" in capsys.readouterr().err


def test_a_message_that_was_not_answered_is_named(chat: Lines) -> None:  # noqa: F811
    class Refusing(ScriptedClient):
        def send(self, command: Command) -> None:
            super().send(command)
            if isinstance(command, Generate):
                self.play(Failed("The prompt is too long.", "Shorten it.", turn=command.turn))

    chat.client = Refusing()
    _, err = chat("Hi")
    assert "The prompt is too long.\n  Shorten it.\nNot answered: Hi\n" in err


@pytest.mark.parametrize("line", ["/again", "/edit Ho", "/continue"])
def test_nothing_is_asked_of_an_engine_that_is_gone(chat: Lines, line: str) -> None:  # noqa: F811
    class Dead(ScriptedClient):
        """It dies in the middle of its second answer."""

        def send(self, command: Command) -> None:
            super().send(command)
            if isinstance(command, Generate) and command.turn == 2:
                self.play(text(2, "Half an"), Died("killed"))

    chat.client = Dead()
    _, err = chat("Hi", "And?", line, replies=("Yes.",))
    assert len(chat.client.asked) == 2
    assert err.endswith("No model is loaded.\n  /reload loads it again.\n")


def test_another_model_by_its_name_or_file(chat: Lines, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "b.gguf").write_bytes(b"")
    asked: list[Choice] = []

    def chosen(choice: Choice) -> tuple[Load, Options]:
        asked.append(choice)
        return Load(ModelSpec("/models/b.gguf")), replace(chat.options, title="Other")

    chat.chosen = chosen
    out, err = chat("Hi", "/model", "/model small", "/model ./c.gguf", "/model b.gguf", "Ho", replies=("1", "2"))
    assert out == "1\n2\n"
    assert asked == [Choice(pair="small"), Choice(target="b.gguf")]
    assert "Another one: /model" in err and "There is no file ./c.gguf." in err
    assert err.count("Other is ready; method lookup.") == 2


def test_a_chat_with_one_model_says_so(chat: Lines) -> None:  # noqa: F811
    _, err = chat("/model small")
    assert "This chat has one model only." in err


def test_a_trace_of_another_models_answer_is_refused(chat: Lines) -> None:  # noqa: F811
    chat.chosen = lambda _: (LOAD, replace(chat.options, title="Other"))
    _, err = chat("Hi", "/model small", "/trace", replies=("1",))
    assert "Another model wrote this answer: demo." in err
