"""The state of the chat, without a screen: what is asked of the engine, and what is kept of its answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.conversation import Conversation, Options
from localspec.engine.messages import Died, Emitted, Event, Failed, Loading, Notice, Prefill, Stop, Use
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.tui.driving import LOAD
from tests.tui.scripted import MODEL, READY, ScriptedClient, finished, text

OPTIONS = Options("demo", "lookup", 8, Sampling(seed=7), max_tokens=99, system="Be brief.", stop=("END",))


class Talk:
    """A conversation and its engine, driven by hand."""

    def __init__(self, *, ready: bool = True, options: Options = OPTIONS) -> None:
        self.client = ScriptedClient(ready=ready)
        self.chat = Conversation(self.client, LOAD, options)
        self.chat.start()
        self.drain()

    def drain(self) -> None:
        while events := self.client.poll():
            for event in events:
                self.chat.fold(event)

    def hear(self, *events: Event) -> None:
        for event in events:
            self.chat.fold(event)

    def ask(self, question: str, answer: str = "An answer.") -> int:
        self.chat.submit(question)
        turn = self.client.turn
        self.hear(text(turn, answer), finished(turn))
        return turn

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.chat.session.messages()]

    @property
    def notes(self) -> list[str]:
        return [note.text for note in self.chat.notes]


@pytest.fixture
def talk() -> Talk:
    return Talk()


def test_starting_loads_the_model(talk: Talk) -> None:
    assert talk.client.starts == 1
    assert talk.client.commands == [LOAD]
    assert talk.chat.engine == READY


def test_a_question_carries_every_setting(talk: Talk) -> None:
    talk.chat.submit("Why?")
    (asked,) = talk.client.asked
    assert [message.text for message in asked.messages] == ["Be brief.", "Why?"]
    assert (asked.method, asked.draft_tokens, asked.max_tokens, asked.stop) == ("lookup", 8, 99, ("END",))
    assert asked.sampling == Sampling(seed=7)


def test_the_next_question_carries_the_answer_and_its_token_ids(talk: Talk) -> None:
    talk.ask("Why?", "Because.")
    talk.chat.submit("And then?")
    answer = talk.client.asked[-1].messages[2]
    assert (answer.role, answer.text) == ("assistant", "Because.")
    assert answer.token_ids
    assert answer.token_ids == talk.chat.answers[0].answer.token_ids


def test_the_tail_of_a_stopped_answer_is_kept(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(
        text(talk.client.turn, "Half"),
        finished(talk.client.turn, Finish.CANCELLED, tail="\N{REPLACEMENT CHARACTER}"),
    )
    assert talk.texts[-1] == "Half\N{REPLACEMENT CHARACTER}"


def test_a_prompt_waits_for_the_model() -> None:
    talk = Talk(ready=False)
    talk.chat.submit("Why?")
    assert talk.client.asked == []
    assert talk.chat.queue == ["Why?"]
    talk.hear(READY)
    assert talk.client.asked[0].messages[-1].text == "Why?"
    assert talk.chat.queue == []


def test_prompts_that_come_during_an_answer_are_asked_in_their_order(talk: Talk) -> None:
    talk.chat.submit("one")
    for question in ("two", "three"):
        talk.chat.submit(question)
    assert len(talk.client.asked) == 1
    talk.hear(text(talk.client.turn, "1"), finished(talk.client.turn))
    talk.hear(text(talk.client.turn, "2"), finished(talk.client.turn))
    assert [asked.messages[-1].text for asked in talk.client.asked] == ["one", "two", "three"]


def test_stopping_keeps_what_was_written(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "Because of"))
    talk.chat.stop()
    talk.drain()
    assert isinstance(talk.client.commands[-1], Stop)
    assert talk.texts[-1] == "Because of"
    assert talk.chat.shown.finish is Finish.CANCELLED
    assert talk.chat.running is None


def test_stopping_twice_stops_once(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.chat.stop()
    talk.chat.stop()
    assert sum(isinstance(command, Stop) for command in talk.client.commands) == 1


def test_a_question_that_was_stopped_before_the_first_token_goes_back(talk: Talk) -> None:
    talk.ask("one")
    talk.chat.submit("two")
    talk.chat.stop()
    talk.drain()
    assert talk.texts == ["Be brief.", "one", "An answer."]
    returned = talk.chat.take_returned()
    assert returned is not None
    assert (returned.text, returned.instead_of) == ("two", None)
    assert talk.chat.take_returned() is None


def test_regenerating_asks_the_same_again_beside_the_first_answer(talk: Talk) -> None:
    talk.ask("Why?", "Because.")
    talk.chat.regenerate()
    assert talk.client.asked[1].messages == talk.client.asked[0].messages
    assert talk.client.asked[1].turn != talk.client.asked[0].turn
    talk.hear(text(talk.client.turn, "Otherwise."), finished(talk.client.turn))
    assert talk.texts[-1] == "Otherwise."
    assert talk.chat.answers[-1].place == (2, 2)


def test_a_second_answer_that_fails_leaves_the_first_one(talk: Talk) -> None:
    talk.ask("Why?", "Because.")
    talk.chat.regenerate()
    talk.hear(Failed("No.", "", 1, talk.client.turn))
    assert talk.texts[-1] == "Because."
    assert talk.chat.take_returned() is None


def test_an_edited_message_is_asked_with_what_came_before_it(talk: Talk) -> None:
    talk.ask("one")
    talk.ask("two")
    talk.ask("three")
    node = talk.chat.session.path[2]
    talk.chat.edit(node, "zwei")
    assert [m.text for m in talk.client.asked[-1].messages] == ["Be brief.", "one", "An answer.", "zwei"]
    assert talk.chat.session.path[2].place == (2, 2)


def test_an_edit_that_fails_goes_back_as_an_edit(talk: Talk) -> None:
    talk.ask("one")
    node = talk.chat.session.path[0]
    talk.chat.edit(node, "eins")
    talk.hear(Failed("No.", "", 1, talk.client.turn))
    returned = talk.chat.take_returned()
    assert returned is not None
    assert (returned.text, returned.instead_of) == ("eins", node)
    assert talk.texts == ["Be brief.", "one", "An answer."]


def test_switching_reaches_the_running_answer_and_the_next_one(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.chat.use("off", 4)
    assert talk.client.used == [Use("off", 4)]
    talk.hear(text(talk.client.turn, "So."), finished(talk.client.turn))
    talk.chat.submit("And?")
    assert (talk.client.asked[-1].method, talk.client.asked[-1].draft_tokens) == ("off", 4)


def test_an_idle_engine_is_not_told_about_a_switch(talk: Talk) -> None:
    talk.chat.use("off", 4)
    assert talk.client.used == []


def test_a_failure_is_said_and_the_question_goes_back(talk: Talk) -> None:
    talk.chat.submit("long")
    talk.hear(Failed("The prompt is too long.", "Shorten it.", 2, talk.client.turn))
    note = talk.chat.notes[-1]
    assert (note.text, note.hint, note.error) == ("The prompt is too long.", "Shorten it.", True)
    assert talk.texts == ["Be brief."]
    assert talk.chat.take_returned().text == "long"


def test_a_failure_in_mid_answer_keeps_the_answer(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "Because"), Failed("NaN.", "", 1, talk.client.turn))
    assert talk.texts[-1] == "Because"
    assert talk.chat.shown.error == "NaN."
    assert talk.chat.take_returned() is None


def test_after_a_failure_the_queue_waits_until_something_is_sent(talk: Talk) -> None:
    talk.chat.submit("one")
    talk.chat.submit("two")
    talk.hear(Failed("No.", "", 1, talk.client.turn))
    assert talk.chat.queue == ["two"]
    assert len(talk.client.asked) == 1
    talk.chat.submit("one, shorter")
    assert talk.client.asked[-1].messages[-1].text == "one, shorter"
    talk.hear(text(talk.client.turn, "1"), finished(talk.client.turn))
    assert talk.client.asked[-1].messages[-1].text == "two"


def test_a_held_back_queue_can_be_released(talk: Talk) -> None:
    talk.chat.submit("one")
    talk.chat.submit("two")
    talk.hear(Failed("No.", "", 1, talk.client.turn))
    talk.chat.resume()
    assert talk.client.asked[-1].messages[-1].text == "two"


def test_a_dead_engine_leaves_the_conversation_intact(talk: Talk) -> None:
    talk.ask("one")
    talk.chat.submit("two")
    talk.hear(text(talk.client.turn, "Because"), Died("killed by signal 9 (SIGKILL)"))
    assert talk.texts == ["Be brief.", "one", "An answer.", "two", "Because"]
    assert talk.chat.running is None
    assert talk.notes == ["The engine stopped: killed by signal 9 (SIGKILL)."]
    talk.chat.start()
    talk.drain()
    assert talk.client.starts == 2
    talk.chat.submit("three")
    assert [m.text for m in talk.client.asked[-1].messages[-2:]] == ["Because", "three"]


def test_what_is_asked_of_a_dead_engine_waits_for_the_next_one(talk: Talk) -> None:
    talk.hear(Died("it ended with exit code 3"))
    talk.chat.submit("Why?")
    assert talk.client.asked == []
    talk.chat.start()
    talk.drain()
    assert talk.client.asked[0].messages[-1].text == "Why?"


def test_reloading_in_mid_answer_keeps_the_partial_answer(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "Because"))
    talk.chat.start()
    assert talk.texts[-1] == "Because"
    assert talk.chat.running is None


def test_late_events_of_an_earlier_answer_change_nothing(talk: Talk) -> None:
    turn = talk.ask("one")
    talk.chat.submit("two")
    talk.hear(text(turn, "ghost"), finished(turn), Prefill(turn, 1, 2, 0))
    assert talk.chat.running is not None
    assert "ghost" not in "".join(talk.texts)
    assert talk.chat.reading is None


def test_a_model_that_cannot_be_loaded_is_said_and_can_be_tried_again() -> None:
    talk = Talk(ready=False)
    talk.chat.submit("Why?")
    talk.hear(Loading(0.3), Failed("Cannot load x: truncated", "Download it again."))
    note = talk.chat.notes[-1]
    assert note.error
    assert note.text == "Cannot load x: truncated"
    assert "Download it again." in note.hint
    assert "F8" in note.hint
    talk.client.ready = True
    talk.chat.start()
    talk.drain()
    assert talk.client.asked[0].messages[-1].text == "Why?"


def test_a_notice_is_shown_once(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(
        Notice("The template is broken.", talk.client.turn), Notice("The template is broken."), Notice("Other.")
    )
    assert talk.notes == ["The template is broken.", "Other."]


def test_a_model_that_cannot_check_drafts_decodes_plainly_and_says_why() -> None:
    talk = Talk(ready=False)
    model = replace(MODEL, speculation_off="Speculation is off: its cache can't be cut.")
    talk.hear(replace(READY, target=model, methods=("off",)), Notice("Speculation is off: its cache can't be cut."))
    assert talk.chat.method == "off"
    assert talk.notes == ["Speculation is off: its cache can't be cut."]


def test_a_full_context_is_said_with_a_way_out(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(text(talk.client.turn, "Because"), finished(talk.client.turn, Finish.CONTEXT))
    assert talk.notes == ["The context is full: 8,192 tokens."]
    assert "--n-ctx" in talk.chat.notes[0].hint


def test_the_context_counts_prompt_and_answer(talk: Talk) -> None:
    assert talk.chat.context == (0, 8192)
    talk.chat.submit("Why?")
    talk.hear(Prefill(talk.client.turn, 10, 30, 0), text(talk.client.turn, "one two"))
    assert talk.chat.context == (30 + len(talk.chat.shown.token_ids), 8192)


def test_notes_of_a_question_that_went_back_stay(talk: Talk) -> None:
    talk.ask("one")
    talk.chat.submit("two")
    talk.hear(Notice("A notice.", talk.client.turn), Failed("No.", "", 1, talk.client.turn))
    here = {talk.chat.session.root, *talk.chat.session.path}
    assert all(note.after in here for note in talk.chat.notes)
    assert talk.notes == ["A notice.", "No."]


def test_an_empty_emission_is_harmless(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(Emitted(talk.client.turn, (), ()))
    assert talk.chat.shown.text == ""
