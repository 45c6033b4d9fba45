"""The state of the chat, without a screen: what is asked of the engine, and what is kept of its answers."""

from __future__ import annotations

from localspec.engine.messages import Emitted, Notice, Prefill, Stop, Use
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.tui.driving import LOAD
from tests.tui.scripted import READY, finished, text
from tests.tui.talk import Talk


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


def test_an_edited_message_is_asked_with_what_came_before_it(talk: Talk) -> None:
    talk.ask("one")
    talk.ask("two")
    talk.ask("three")
    node = talk.chat.session.path[2]
    talk.chat.edit(node, "zwei")
    assert [m.text for m in talk.client.asked[-1].messages] == ["Be brief.", "one", "An answer.", "zwei"]
    assert talk.chat.session.path[2].place == (2, 2)


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


def test_a_notice_is_shown_once(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(
        Notice("The template is broken.", talk.client.turn), Notice("The template is broken."), Notice("Other.")
    )
    assert talk.notes == ["The template is broken.", "Other."]


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


def test_an_empty_emission_is_harmless(talk: Talk) -> None:
    talk.chat.submit("Why?")
    talk.hear(Emitted(talk.client.turn, (), ()))
    assert talk.chat.shown.text == ""
