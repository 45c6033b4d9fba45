"""Another model in the middle of a conversation: what stays, and what belongs to the model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.conversation import Conversation
from localspec.engine.messages import Failed, Load
from localspec.errors import LocalspecError
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling
from tests.tui.scripted import ScriptedClient
from tests.tui.talk import OPTIONS, Talk

OTHER = Load(ModelSpec("/models/other.gguf"), ModelSpec("/models/small.gguf"))
COOL = Sampling(temperature=0.3)
OTHERS = replace(OPTIONS, title="Other 4B", method="lookup", sampling=COOL, recommended={"temperature": 0.3})


def test_the_conversation_stays_and_goes_to_the_new_model(talk: Talk) -> None:
    talk.ask("Which tree is that?", "An oak.")
    talk.chat.switch_model(OTHER, OTHERS)
    talk.drain()
    assert [command for command in talk.client.commands if isinstance(command, Load)][-1] == OTHER
    talk.ask("And this one?")
    assert [message.text for message in talk.client.asked[-1].messages[1:]] == [
        "Which tree is that?",
        "An oak.",
        "And this one?",
    ]
    assert talk.notes == ["From here on Other 4B answers."]
    assert talk.chat.session.model == "Other 4B"


def test_an_empty_conversation_says_nothing_about_it(talk: Talk) -> None:
    talk.chat.switch_model(OTHER, OTHERS)
    assert talk.notes == []


def test_the_authors_settings_come_with_the_model_unless_the_user_changed_something(talk: Talk) -> None:
    talk.chat.switch_model(OTHER, OTHERS)
    assert talk.chat.options.sampling == talk.chat.session.sampling == COOL
    talk.chat.set_sampling(Sampling(temperature=1.5))
    talk.chat.switch_model(OTHER, replace(OTHERS, title="Third", sampling=Sampling(temperature=0.6)))
    assert talk.chat.options.sampling.temperature == 1.5
    talk.chat.new_session()
    assert talk.chat.options.sampling.temperature == 0.6


def test_what_the_former_model_was_measured_at_is_no_yardstick_for_the_new_one(talk: Talk) -> None:
    talk.ask("Which tree is that?", "An oak.")
    assert talk.chat.plain.rounds
    talk.chat.switch_model(OTHER, OTHERS)
    assert not talk.chat.plain.rounds


def test_a_running_answer_is_not_cut_off(talk: Talk) -> None:
    talk.chat.submit("Which tree is that?")
    with pytest.raises(LocalspecError, match="still being written"):
        talk.chat.switch_model(OTHER, OTHERS)
    assert talk.chat.running
    assert OTHER not in talk.client.commands


def test_a_model_that_cannot_be_loaded_leaves_the_conversation_and_the_choice(talk: Talk) -> None:
    talk.ask("Which tree is that?", "An oak.")
    talk.client.ready = False
    talk.chat.switch_model(OTHER, OTHERS)
    talk.hear(Failed("Cannot load it.", ""))
    assert "An oak." in talk.texts
    assert talk.chat.notes[-1].hint == "F8 tries again, F2 chooses another model."


def test_without_a_model_a_message_waits_until_one_is_chosen() -> None:
    client = ScriptedClient()
    chat = Conversation(client, None, OPTIONS)
    with pytest.raises(LocalspecError, match="No model is chosen"):
        chat.start()
    chat.submit("Hello?")
    assert not client.commands
    chat.switch_model(OTHER, OTHERS)
    for event in client.poll():
        chat.fold(event)
    assert [message.text for message in client.asked[0].messages[1:]] == ["Hello?"]
