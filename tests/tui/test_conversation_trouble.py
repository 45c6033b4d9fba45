"""The conversation when the engine fails, dies or can't: what was said stays, what was not answered goes back."""

from __future__ import annotations

from dataclasses import replace

from localspec.engine.messages import Died, Failed, Loading, Notice, Prefill
from tests.tui.driving import LOAD
from tests.tui.scripted import MODEL, READY, finished, text
from tests.tui.talk import Talk


def test_a_second_answer_that_fails_leaves_the_first_one(talk: Talk) -> None:
    talk.ask("Why?", "Because.")
    talk.chat.regenerate()
    talk.hear(Failed("No.", "", 1, talk.client.turn))
    assert talk.texts[-1] == "Because."
    assert talk.chat.take_returned() is None


def test_an_edit_that_fails_goes_back_as_an_edit(talk: Talk) -> None:
    talk.ask("one")
    node = talk.chat.session.path[0]
    talk.chat.edit(node, "eins")
    talk.hear(Failed("No.", "", 1, talk.client.turn))
    returned = talk.chat.take_returned()
    assert returned is not None
    assert (returned.text, returned.instead_of) == ("eins", node)
    assert talk.texts == ["Be brief.", "one", "An answer."]


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


def test_a_model_that_ends_the_engine_while_it_is_loaded_is_named() -> None:
    talk = Talk(ready=False)
    talk.hear(Loading(0.5), Died("killed by signal 6 (SIGABRT): an assertion"))
    assert len(talk.notes) == 1
    assert LOAD.target.path in talk.notes[0] and "did not survive it: killed by signal 6" in talk.notes[0]


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


def test_a_model_that_cannot_check_drafts_decodes_plainly_and_says_why() -> None:
    talk = Talk(ready=False)
    model = replace(MODEL, speculation_off="Speculation is off: its cache can't be cut.")
    talk.hear(replace(READY, target=model, methods=("off",)), Notice("Speculation is off: its cache can't be cut."))
    assert talk.chat.method == "off"
    assert talk.notes == ["Speculation is off: its cache can't be cut."]


def test_notes_of_a_question_that_went_back_stay(talk: Talk) -> None:
    talk.ask("one")
    talk.chat.submit("two")
    talk.hear(Notice("A notice.", talk.client.turn), Failed("No.", "", 1, talk.client.turn))
    here = {talk.chat.session.root, *talk.chat.session.path}
    assert all(note.after in here for note in talk.chat.notes)
    assert talk.notes == ["A notice.", "No."]
