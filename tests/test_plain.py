"""The chat line by line, with a scripted engine: what goes to standard output, and what beside it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.chat.keeper import Keeper
from localspec.commands import COMMANDS
from localspec.conversation import Conversation, Options
from localspec.opening import Chosen
from localspec.plain import PlainChat
from localspec.spec.settings import Sampling
from tests.tui.driving import LOAD
from tests.tui.scripted import READY, ScriptedClient


class Lines:
    """A chat whose input is a pipe."""

    def __init__(self, patch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str], folder: Path) -> None:
        self._patch, self._capture, self._folder = patch, capture, folder
        self.client = ScriptedClient()
        self.options = Options("demo", "lookup", 8, Sampling())
        self.keeper: Keeper | None = None
        self.chosen: Chosen | None = None
        self.chat: Conversation
        patch.chdir(folder)

    def __call__(self, *lines: str, replies: tuple[str, ...] = (), thoughts: bool = True) -> tuple[str, str]:
        """What was printed to standard output and to standard error."""
        self.client.replies.extend(replies)
        self._patch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        self.chat = Conversation(self.client, LOAD, self.options, self.keeper)
        assert PlainChat(self.chat, self.client, self._folder, thoughts, self.chosen).run() == 0
        return self._capture.readouterr()


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Lines:
    return Lines(monkeypatch, capsys, tmp_path)


def test_answers_go_to_standard_output_and_nothing_else_does(chat: Lines) -> None:
    out, err = chat("Hello", "And again", replies=("One.", "Two."))
    assert out == "One.\nTwo.\n"
    assert "demo is ready" in err and "tok/s" in err


def test_commands_work_in_a_pipe(chat: Lines) -> None:
    _, err = chat(
        "/method off", "/k 3", "/set top_k 7", "/verifier token", "/system Be brief.", "Hi", replies=("Yes.",)
    )
    asked = chat.client.asked[0]
    assert (asked.method, asked.draft_tokens, asked.verifier, asked.sampling.top_k) == ("off", 3, "token", 7)
    assert asked.messages[0].text == "Be brief."
    assert "Method off" in err and "top_k is 7" in err


def test_an_unknown_command_names_the_nearest_and_the_chat_goes_on(chat: Lines) -> None:
    out, err = chat("/metod off", "Hi", replies=("Yes.",))
    assert "Did you mean /method?" in err
    assert out == "Yes.\n"


def test_two_slashes_and_a_path_are_messages(chat: Lines) -> None:
    chat("//help me", "/etc/hosts is what?", replies=("1", "2"))
    assert [asked.messages[-1].text for asked in chat.client.asked] == ["/help me", "/etc/hosts is what?"]


def test_help_names_every_command(chat: Lines) -> None:
    _, err = chat("/help")
    assert [c.name for c in COMMANDS if f"/{c.name}" not in err] == []


def test_what_needs_the_screen_says_so(chat: Lines) -> None:
    only = [command.name for command in COMMANDS if command.instead]
    _, err = chat(*(f"/{name}" for name in only))
    assert only and [name for name in only if f"/{name} needs the screen.\n  " not in err] == []


def test_every_command_without_an_argument_ends_in_a_sentence(chat: Lines) -> None:
    _, err = chat(*(f"/{c.name}" for c in COMMANDS if c.name != "quit"))
    assert "Traceback" not in err
    assert "There is no answer yet." in err and "temperature 0.8 (default 0.8)" in err


def test_quit_leaves_what_comes_after_it(chat: Lines) -> None:
    chat("/quit", "Hi")
    assert chat.client.asked == []


def test_regenerate_and_edit_ask_again(chat: Lines) -> None:
    out, _ = chat("Hi", "/regen", "/edit Ho", replies=("1", "2", "3"))
    assert out == "1\n2\n3\n"
    assert [asked.messages[-1].text for asked in chat.client.asked] == ["Hi", "Hi", "Ho"]


def test_sessions_are_left_listed_and_opened(chat: Lines) -> None:
    lines = ("Hi", "/rename My talk", "/new", "Ho", "/sessions", "/open My talk", "/search Two", "And?")
    _, err = chat(*lines, replies=("One.", "Two.", "Three."))
    assert "My talk  (2 messages)" in err and "Ho  (2 messages)" in err
    assert "Ho: Two." in err
    assert [message.text for message in chat.client.asked[2].messages] == ["Hi", "One.", "And?"]


def test_what_can_not_be_continued_or_opened_is_said(chat: Lines) -> None:
    _, err = chat("/continue", "/open nothing", "Hi", "/continue", replies=("One.",))
    assert err.count("no stopped answer to continue") == 2
    assert "no session to go on with yet" in err


def test_a_file_goes_with_the_message(chat: Lines, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("inside")
    _, err = chat("Read @a.txt", "Read @b.txt", replies=("Yes.",))
    assert "File a.txt:\n```txt\ninside\n```" in chat.client.asked[0].messages[-1].text
    assert len(chat.client.asked) == 1
    assert "There is no file" in err and "b.txt" in err


def test_thoughts_are_no_part_of_the_answer(chat: Lines) -> None:
    out, err = chat("Hi", replies=("<think>\nHm, hm.\n</think>\n\nYes.",))
    assert out == "Yes.\n"
    assert "Hm, hm." in err and "[thought for" in err and "think>" not in err


def test_thoughts_can_be_left_out(chat: Lines) -> None:
    out, err = chat("Hi", replies=("<think>Hm, hm.</think>Yes.",), thoughts=False)
    assert out == "Yes.\n"
    assert "Hm" not in err and "[thought for" in err


def test_a_template_that_opens_the_thought(chat: Lines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.tui.scripted.READY", replace(READY, thinks=True))
    out, err = chat("Hi", replies=("Hm, hm.</think>Yes.",))
    assert out == "Yes.\n"
    assert "Hm, hm." in err


def test_control_characters_are_shown_not_sent_to_the_terminal(chat: Lines) -> None:
    out, err = chat("/set \x1b[31m 3", "Hi", replies=("a\x1b[31mb",))
    assert "\x1b" not in out + err
