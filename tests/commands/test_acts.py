"""What commands do where the conversation is in an unusual state."""

from __future__ import annotations

from dataclasses import replace

from localspec.commands import acts
from localspec.commands.copying import copied
from tests.tui.scripted import READY
from tests.tui.talk import Talk


def test_a_message_that_has_no_answer_yet_is_asked_again() -> None:
    """As the note says that comes with such a session."""
    talk = Talk()
    talk.chat.session.say("Why?")
    assert acts.regenerate(talk.chat, "") == ""
    assert talk.client.asked[-1].messages[-1].text == "Why?"


def test_a_copy_has_no_thoughts_where_the_template_opened_them() -> None:
    talk = Talk()
    talk.hear(replace(READY, thinks=True))
    talk.ask("Why?", "Hm, hm.</think>\n\nYes.")
    assert copied(talk.chat) == "Yes."
