"""Conversations are kept, left, opened again, continued; a context that is full is the user's to decide about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.chat.keeper import Keeper
from localspec.chat.store import Store
from localspec.conversation import Conversation
from localspec.engine.messages import Failed, Generate
from localspec.errors import LocalspecError
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.chat.said import Clock
from tests.tui.driving import LOAD
from tests.tui.scripted import ScriptedClient, finished, text
from tests.tui.talk import OPTIONS, Talk


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


def talk_on(file: Path, *, title: str = OPTIONS.title) -> Talk:
    """As after a start of the program; the one before it was killed."""
    talk = Talk()
    options = replace(OPTIONS, title=title)
    talk.chat = Conversation(talk.client, LOAD, options, Keeper(Store(file), Clock()))
    talk.chat.start()
    talk.drain()
    return talk


def test_what_was_sent_is_stored_before_the_engine_hears_of_it(file: Path) -> None:
    stored: list[list[str]] = []

    class Looking(ScriptedClient):
        def send(self, command: object) -> None:
            if isinstance(command, Generate):
                store = Store(file)
                session = store.read(store.sessions()[0].id)
                stored.append([message.text for message in session.messages() if message.role == "user"])
                store.close()
            super().send(command)

    talk = Talk()
    talk.client = Looking()
    talk.chat = Conversation(talk.client, LOAD, OPTIONS, Keeper(Store(file), Clock()))
    talk.chat.start()
    talk.drain()
    talk.ask("one")
    talk.chat.submit("two")
    assert stored == [["one"], ["one", "two"]]


def test_a_session_is_opened_with_its_words_and_its_settings(file: Path) -> None:
    talk = talk_on(file)
    talk.chat.set_system("Be long.")
    talk.chat.set_sampling(Sampling(temperature=0.1, seed=3))
    talk.ask("Why?", "Because.")
    again = talk_on(file)
    (row,) = again.chat.sessions()
    again.chat.open_session(row.id)
    assert again.texts == ["Be long.", "Why?", "Because."]
    again.chat.submit("And then?")
    asked = again.client.asked[-1]
    assert asked.sampling == Sampling(temperature=0.1, seed=3)
    assert asked.messages[2].token_ids == talk.chat.answers[0].answer.token_ids


def test_a_new_session_begins_with_the_settings_of_the_program(talk: Talk) -> None:
    talk.chat.set_system("Be long.")
    talk.chat.set_sampling(Sampling(temperature=0.1))
    talk.ask("Why?")
    first = talk.chat.session.id
    talk.chat.new_session()
    assert (talk.texts, talk.chat.options.sampling, talk.chat.title) == (["Be brief."], Sampling(seed=7), "")
    talk.chat.open_session(first)
    assert talk.texts == ["Be long.", "Why?", "An answer."]
    assert talk.chat.options.sampling == Sampling(temperature=0.1)


def test_a_session_in_which_nothing_was_said_is_not_kept(talk: Talk) -> None:
    talk.chat.new_session()
    talk.chat.set_system("x")
    assert talk.chat.sessions() == []
    talk.chat.submit("Why?")
    talk.chat.stop()
    talk.drain()  # before the first word: the question goes back to the editor
    talk.chat.take_returned()
    assert [row.messages for row in talk.chat.sessions()] == [0]
    talk.chat.new_session()
    assert [row.title for row in talk.chat.sessions()] == ["Why?"]  # it waits there to be sent again


def test_a_prompt_that_waits_for_the_model_survives(file: Path) -> None:
    talk = talk_on(file)
    talk.chat.submit("Why?")
    talk.chat.submit("And then?")
    again = talk_on(file)
    again.chat.open_session(again.chat.sessions()[0].id)
    returned = again.chat.take_returned()
    assert returned is not None
    assert returned.text == "And then?"
    assert again.texts == ["Be brief.", "Why?"]
    assert any("no answer yet" in note for note in again.notes)
    again.chat.regenerate()
    assert again.client.asked[-1].messages[-1].text == "Why?"


def test_a_killed_answer_is_there_and_can_be_continued(file: Path) -> None:
    talk = talk_on(file)
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "Because of the "))
    talk.chat.keeper.save(talk.chat.session)
    again = talk_on(file)
    again.chat.open_session(again.chat.sessions()[0].id)
    (node,) = again.chat.answers
    assert node.answer.error
    tokens = node.answer.token_ids
    again.chat.continue_answer()
    asked = again.client.asked[-1]
    assert (asked.resume, asked.messages[-1].text) == (tokens, "Why?")
    again.hear(text(again.client.turn, "night."), finished(again.client.turn))
    assert again.texts[-1] == "Because of the night."
    assert (node.answer.error, node.answer.finish) == (None, Finish.STOP)
    third = talk_on(file)
    third.chat.open_session(third.chat.sessions()[0].id)
    assert third.texts[-1] == "Because of the night."


def test_a_continued_answer_counts_its_tokens_and_seconds_once(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "one two "), finished(talk.client.turn, Finish.CANCELLED, tail="\ufffd"))
    answer = talk.chat.shown
    first = len(answer.token_ids)
    talk.chat.continue_answer()
    ended = finished(talk.client.turn, Finish.LENGTH, decode_s=1.0)
    talk.hear(text(talk.client.turn, "three "), replace(ended, prompt_tokens=24 + first))
    assert answer.text == "one two three "
    assert (answer.prompt_tokens, answer.decode_s) == (24, 3.0)
    assert talk.chat.context == (24 + len(answer.token_ids), 8192)


def test_a_finished_answer_is_not_continued(talk: Talk) -> None:
    with pytest.raises(LocalspecError, match="no stopped answer"):
        talk.chat.continue_answer()
    talk.ask("Why?")
    with pytest.raises(LocalspecError, match="no stopped answer"):
        talk.chat.continue_answer()


def test_an_answer_of_another_model_is_not_continued(file: Path) -> None:
    talk = talk_on(file)
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "Because"), finished(talk.client.turn, Finish.CANCELLED))
    again = talk_on(file, title="another")
    again.chat.open_session(again.chat.sessions()[0].id)
    assert any("another answers" in note for note in again.notes)
    with pytest.raises(LocalspecError, match="Another model began"):
        again.chat.continue_answer()


def test_late_words_of_a_session_that_was_left_go_nowhere(talk: Talk) -> None:
    talk.chat.submit("Why?")
    turn = talk.client.turn
    talk.hear(text(turn, "Because"), finished(turn, Finish.CANCELLED))
    talk.chat.new_session()
    talk.chat.submit("Something else")
    talk.hear(text(turn, "ghost"))
    assert talk.chat.shown.text == ""


def test_a_running_answer_keeps_its_session_open(talk: Talk) -> None:
    talk.ask("one")
    first = talk.chat.session.id
    talk.chat.new_session()
    talk.chat.submit("two")
    for act in (talk.chat.new_session, lambda: talk.chat.open_session(first)):
        with pytest.raises(LocalspecError, match="still being written"):
            act()
    talk.chat.stop()
    talk.drain()
    talk.chat.open_session(first)
    assert talk.texts[1] == "one"


def test_the_oldest_turns_are_left_out_and_the_answer_goes_on(file: Path) -> None:
    talk = talk_on(file)
    for question in ("one " * 20, "two " * 20, "three"):
        talk.ask(question)
    talk.chat.submit("four")
    talk.hear(
        text(talk.client.turn, "So "), replace(finished(talk.client.turn, Finish.CONTEXT), prompt_tokens=8190)
    )
    full = talk.chat.full
    assert full is not None
    assert [node.message.text.split()[0] for node in full.oldest if node.message] == ["one", "two"]
    talk.chat.drop_oldest()
    asked = talk.client.asked[-1]
    assert [message.text for message in asked.messages] == ["Be brief.", "three", "An answer.", "four"]
    assert asked.resume
    assert talk.chat.full is None
    assert len(talk.chat.session.path) == 8  # they stay on the screen
    again = talk_on(file)
    again.chat.open_session(again.chat.sessions()[0].id)
    assert "one " * 20 not in again.texts


def test_a_prompt_that_is_too_long_goes_back_and_offers_the_choice(talk: Talk) -> None:
    talk.ask("one")
    talk.chat.submit("long")
    talk.hear(Failed("The prompt has 9,000 tokens.", "Shorten it.", 2, talk.client.turn, too_long=9000))
    assert talk.chat.take_returned().text == "long"
    assert talk.chat.full is not None
    assert len(talk.chat.full.oldest) == 2
    talk.chat.drop_oldest()
    talk.chat.submit("long")
    assert [message.text for message in talk.client.asked[-1].messages] == ["Be brief.", "long"]


def test_deleting_the_open_session_begins_another(file: Path) -> None:
    talk = talk_on(file)
    talk.ask("Why?")
    talk.chat.delete(talk.chat.session.id)
    assert (talk.chat.sessions(), talk.texts) == ([], ["Be brief."])
    talk.ask("Something else")
    assert [row.title for row in talk.chat.sessions()] == ["Something else"]


def test_a_session_that_another_process_has_is_not_opened(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = talk_on(file)
    talk.ask("Why?")
    first = talk.chat.session.id
    talk.chat.new_session()
    monkeypatch.setattr(talk.chat.keeper.store, "claim", lambda _: False)
    for act in (talk.chat.open_session, talk.chat.delete):
        with pytest.raises(LocalspecError, match="open in another"):
            act(first)
    assert len(talk.chat.sessions()) == 1
