"""A conversation is a tree: nothing is overwritten, and what the model reads is the active path."""

from __future__ import annotations

from localspec.chat.answer import Answer
from localspec.chat.message import Message, Piece
from localspec.chat.session import Asked, Node, Session
from localspec.spec.settings import Sampling

ASKED = Asked(Sampling(), draft_tokens=8)


def spoken(text: str, *tokens: int) -> Answer:
    pieces = [Piece(token, "", "plain") for token in tokens[:-1]] + [Piece(tokens[-1], text, "plain")]
    return Answer("off", pieces=pieces)


def exchange(session: Session, question: str, text: str, *tokens: int) -> tuple[Node, Node]:
    asked = session.say(question)
    return asked, session.answer(asked, spoken(text, *tokens), ASKED)


def texts(session: Session) -> list[str]:
    return [message.text for message in session.messages()]


def test_a_new_session_says_nothing() -> None:
    assert Session().messages() == ()
    assert Session().path == ()


def test_messages_are_the_system_prompt_and_the_path_in_order() -> None:
    session = Session("Be brief.")
    exchange(session, "one?", "One.", 1, 2)
    exchange(session, "two?", "Two.", 3)
    assert session.messages() == (
        Message("system", "Be brief."),
        Message("user", "one?"),
        Message("assistant", "One.", (1, 2)),
        Message("user", "two?"),
        Message("assistant", "Two.", (3,)),
    )


def test_answers_carry_the_token_ids_they_were_made_of() -> None:
    session = Session()
    exchange(session, "one?", "One.", 17, 4)
    assert session.messages()[1].token_ids == (17, 4)


def test_messages_end_with_the_question_that_is_asked() -> None:
    session = Session()
    question, _ = exchange(session, "one?", "One.", 1)
    exchange(session, "two?", "Two.", 2)
    assert [m.text for m in session.messages(until=question)] == ["one?"]


def test_a_second_answer_stands_beside_the_first_one() -> None:
    session = Session()
    question, first = exchange(session, "one?", "One.", 1)
    second = session.answer(question, spoken("Uno.", 2), ASKED)
    assert texts(session) == ["one?", "Uno."]
    assert (first.place, second.place) == ((1, 2), (2, 2))
    session.step(second, -1)
    assert texts(session) == ["one?", "One."]


def test_an_edit_keeps_what_was_said_before_the_edit() -> None:
    session = Session()
    exchange(session, "one?", "One.", 1)
    question, _ = exchange(session, "two?", "Two.", 2)
    edited = session.say("three?", instead_of=question)
    session.answer(edited, spoken("Three.", 3), ASKED)
    assert texts(session) == ["one?", "One.", "three?", "Three."]
    session.step(edited, -1)
    assert texts(session) == ["one?", "One.", "two?", "Two."]


def test_the_first_message_can_be_edited() -> None:
    session = Session()
    question, _ = exchange(session, "one?", "One.", 1)
    session.say("other?", instead_of=question)
    assert texts(session) == ["other?"]


def test_stepping_stops_at_either_end() -> None:
    session = Session()
    question, first = exchange(session, "one?", "One.", 1)
    second = session.answer(question, spoken("Uno.", 2), ASKED)
    assert session.step(second, 1) is second
    assert session.step(second, -5) is first


def test_a_branch_remembers_the_path_that_was_chosen_in_it() -> None:
    session = Session()
    question, first = exchange(session, "one?", "One.", 1)
    exchange(session, "two?", "Two.", 2)
    second = session.answer(question, spoken("Uno.", 3), ASKED)
    session.step(second, -1)
    assert session.path[1] is first
    assert texts(session) == ["one?", "One.", "two?", "Two."]


def test_a_removed_node_leaves_the_path_to_its_neighbour() -> None:
    session = Session()
    question, first = exchange(session, "one?", "One.", 1)
    second = session.answer(question, Answer("off"), ASKED)
    assert session.remove(second) is first
    assert texts(session) == ["one?", "One."]
    assert session.remove(first) is None
    assert texts(session) == ["one?"]


def test_every_answer_is_listed_in_the_order_of_asking() -> None:
    session = Session()
    question, first = exchange(session, "one?", "One.", 1)
    _, second = exchange(session, "two?", "Two.", 2)
    third = session.answer(question, spoken("Uno.", 3), ASKED)
    assert session.answers() == [first, second, third]


def test_ids_are_never_given_twice() -> None:
    session = Session()
    question, answer = exchange(session, "one?", "One.", 1)
    session.remove(answer)
    assert session.answer(question, spoken("Uno.", 2), ASKED).id not in {question.id, answer.id}
