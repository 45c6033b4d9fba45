"""A race: who runs when, what is measured, what is said about it, and when there is none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.conversation import Options
from localspec.engine.messages import Died, Emitted, Failed, Notice, Ready, Stop
from localspec.errors import UsageError
from localspec.race import TOKENS, Race, comparison, names, race, remarks, result, step, terms, told, written
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish, LogProb
from tests.racing import lane, token
from tests.tui.scripted import READY, finished, text
from tests.tui.talk import OPTIONS, Talk

WORDS = "one two three four five six"
GREEDY = replace(OPTIONS, sampling=Sampling(temperature=0, seed=7))


def begun(options: Options = GREEDY) -> tuple[Talk, Race]:
    talk = Talk(options=options)
    talk.ask("Count.")
    run = race(talk.chat, talk.client)
    run.start()
    return talk, run


def raced(first: str, second: str, options: Options = GREEDY, q: float = 1.0) -> Race:
    _, run = begun(options)
    for event in (*lane(-1, first), *lane(-2, second, 3, q=q)):
        assert run.fold(event)
    return run


def test_the_plain_run_comes_first_and_both_are_asked_the_same() -> None:
    talk, run = begun()
    assert [command.method for command in talk.client.asked] == ["lookup", "off"]
    for event in lane(-1, WORDS):
        run.fold(event)
    question, plain, other = talk.client.asked
    assert other.method == "lookup"
    assert other.draft_tokens == 8 and plain.draft_tokens is None
    assert replace(plain, turn=0, method="", draft_tokens=None) == replace(
        other, turn=0, method="", draft_tokens=None
    )
    assert plain.messages == question.messages and plain.stop == question.stop
    assert plain.sampling.seed == 7
    assert not plain.remember, "the second run must not draft from the first"
    assert plain.max_tokens == 99


def test_without_a_limit_of_the_users_a_race_has_its_own() -> None:
    _, run = begun(replace(GREEDY, max_tokens=None))
    assert run.asked.max_tokens == TOKENS


def test_the_seed_is_that_of_the_answer_where_none_is_fixed() -> None:
    _, run = begun(replace(OPTIONS, sampling=Sampling()))
    assert run.asked.sampling.seed == 1234567


def test_equal_answers_are_compared_by_their_times() -> None:
    run = raced(WORDS, WORDS)
    assert run.over
    assert result(run) == "lookup 0.5 s against plain 3.0 s: 6.00x"
    assert comparison(run) == "same 6 tokens"


def test_the_whole_result_in_lines() -> None:
    run = raced(WORDS, WORDS)
    assert told(run) == [
        "plain: 6 tokens in 3.0 s, 2.0 tok/s",
        "lookup k=8: 6 tokens in 0.5 s, 12 tok/s",
        "lookup 0.5 s against plain 3.0 s: 6.00x",
        "same 6 tokens",
    ]
    run.trouble = "The engine stopped."
    assert told(run) == ["The engine stopped."]


def test_what_runs_and_under_which_conditions() -> None:
    _, run = begun()
    assert names(run) == ("plain", "lookup k=8")
    assert terms(run) == "seed 7 · T 0 · at most 99 tokens each"
    assert step(run) == "1 of 2: plain is written"
    for event in lane(-1, WORDS):
        run.fold(event)
    assert step(run) == "2 of 2: lookup is written"


def test_answers_of_other_lengths_are_compared_by_their_speeds() -> None:
    run = raced(WORDS, "one two three", replace(OPTIONS, sampling=Sampling(temperature=0.7, seed=1)))
    assert result(run) == "lookup 12 tok/s against plain 2.0 tok/s: 6.00x"


def test_above_temperature_0_texts_may_part_where_a_model_drafts_and_it_says_why() -> None:
    warm = replace(OPTIONS, sampling=Sampling(temperature=0.7, seed=1))
    run = raced(WORDS, "one two tree four", warm, q=0.5)
    assert run.over
    assert comparison(run).startswith(
        'same 2 tokens, then " three" in plain and " tree" in lookup. At temperature 0.7'
    )
    assert "same" in comparison(raced(WORDS, WORDS, warm, q=0.5))
    assert "At temperature" not in comparison(raced(WORDS, "one two tree four", warm)), "one seed, one text"


def test_where_greedy_texts_part_the_model_is_asked_how_close_it_was() -> None:
    talk, run = begun()
    for event in (*lane(-1, WORDS), *lane(-2, "one two tree four five six", 3)):
        run.fold(event)
    assert not run.over
    question = talk.client.asked[-1]
    assert (question.method, question.max_tokens) == ("off", 1)
    assert question.resume == (token("one"), token("two"))
    (_, told, done) = lane(-3, "three")
    assert isinstance(told, Emitted)
    close = LogProb(token("three"), -0.7, ((token("three"), -0.7), (token("tree"), -0.71)))
    run.fold(replace(told, rounds=(replace(told.rounds[0], logprobs=(close,)),)))
    run.fold(done)
    assert run.over
    assert comparison(run).startswith(
        'same 2 tokens, then " three" in plain and " tree" in lookup: 0.01 apart in logits'
    )


def test_a_greedy_text_that_is_longer_parts_at_the_end_of_the_other() -> None:
    run = raced(WORDS, "one two three")
    assert run.over, "there is no second token to ask about"
    assert comparison(run) == 'same 3 tokens, then " four" in plain and the end in lookup'


def test_events_of_the_conversation_are_not_the_races() -> None:
    talk, run = begun()
    before = len(talk.chat.notes), talk.texts
    assert not run.fold(text(1, "word"))
    assert not run.fold(finished(1))
    assert not run.fold(Failed("no", "", turn=1))
    assert not run.fold(Notice("general"))
    assert run.fold(Notice("mine", turn=-1)) and run.notices == ["mine"]
    for event in lane(-1, WORDS):
        run.fold(event)
    assert (len(talk.chat.notes), talk.texts) == before


@pytest.mark.parametrize("lanes", [0, 1])
def test_a_race_can_be_stopped_at_any_time(lanes: int) -> None:
    talk, run = begun()
    for event in lane(-1, WORDS)[: 3 * lanes or 2]:
        run.fold(event)
    run.stop()
    run.stop()
    assert talk.client.commands.count(Stop()) == 1
    asked = len(talk.client.asked)
    for event in lane(-1 - lanes, "one", reason=Finish.CANCELLED):
        run.fold(event)
    assert run.over
    assert result(run) == "The race was stopped."
    assert len(talk.client.asked) == asked


def test_a_stop_that_comes_too_late_starts_no_second_run() -> None:
    talk, run = begun()
    *before, done = lane(-1, WORDS)
    for event in before:
        run.fold(event)
    run.stop()
    run.fold(done)
    assert run.over
    assert [command.turn for command in talk.client.asked] == [1, -1]


def test_a_failure_ends_the_race_and_is_told() -> None:
    _, run = begun()
    assert run.fold(Failed("The prompt is too long.", "Shorten it.", turn=-1))
    assert result(run) == "The prompt is too long. Shorten it."


def test_a_dead_engine_ends_the_race_and_the_conversation_hears_of_it_too() -> None:
    _, run = begun()
    assert not run.fold(Died("killed"))
    assert run.over and result(run) == "The engine stopped."


def test_an_empty_answer_gives_no_figures() -> None:
    _, run = begun()
    for event in lane(-1, ""):
        run.fold(event)
    assert run.over
    assert result(run) == "The model said nothing to this prompt."


def test_a_drafter_that_remembers_may_know_the_answer_and_it_is_said() -> None:
    run = raced(WORDS, WORDS)
    assert remarks(run) == []
    known = [replace(made, source="suffix") for made in run.lanes[1].answer.rounds]
    run.lanes[1].answer.rounds[:] = known
    assert remarks(run) == ["suffix remembers earlier answers, and may know the one that this message already has."]
    run.answered = False
    assert remarks(run) == []


def test_from_plain_decoding_the_race_is_against_the_automatic_choice() -> None:
    talk = Talk()
    talk.ask("Count.")
    talk.hear(replace(READY, methods=("off", "lookup", "auto")))
    talk.chat.use("off", None)
    assert race(talk.chat, talk.client).lanes[1].method == "auto"


def refusal(talk: Talk) -> str:
    with pytest.raises(UsageError) as refused:
        race(talk.chat, talk.client)
    return refused.value.message


def test_what_there_can_be_no_race_about() -> None:
    assert "no model" in refusal(Talk(ready=False))
    talk = Talk()
    assert "last message" in refusal(talk)
    talk.chat.submit("Count.")
    assert "to itself" in refusal(talk)
    plain = Talk()
    plain.ask("Count.")
    ready = READY
    assert isinstance(ready, Ready)
    plain.hear(replace(ready, methods=("off",)))
    assert "nothing to race against" in refusal(plain)


def test_how_much_was_there_when() -> None:
    run = raced(WORDS, WORDS)
    plain, other = (each.arrivals() for each in run.lanes)
    assert plain == [0.5, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert other == [0.25] * 3 + [0.5] * 3
    assert [written(plain, t) for t in (0, 0.49, 0.5, 9)] == [0, 0, 1, 6]
    assert [written(other, t) for t in (0, 0.25, 0.3, 0.5)] == [0, 3, 3, 6]
