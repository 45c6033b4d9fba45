"""Thinking told apart from the answer, however the stream is cut."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.chat.message import Message, Piece
from localspec.chat.thinking import MARKS, Parts, opens, parts, reread, spelt, tokens_before

CHANNELS = (
    "<|channel|>analysis<|message|>Hm, a < b.<|end|>",
    "<|start|>assistant<|channel|>commentary<|message|>And <|en.<|end|>",
    "<|start|>assistant<|channel|>final<|message|>The answer: `<|end|>` and <|x.",
)
THOUGHTFUL = "<think>\nOne < two.\n</thin no.\n</think>\n\nThe answer: a < b."


def test_a_block_at_the_beginning_is_the_thought() -> None:
    found = parts(THOUGHTFUL)
    assert found.thought == "One < two.\n</thin no."
    assert found.said == "The answer: a < b."
    assert not found.thinking
    assert THOUGHTFUL[found.begins :] == found.said


@pytest.mark.parametrize(("opening", "closing"), MARKS)
def test_every_pair_of_marks(opening: str, closing: str) -> None:
    assert parts(f"{opening}hm{closing}yes") == Parts("hm", "yes", begins=len(f"{opening}hm{closing}"))
    assert opens(f"...assistant\n{opening}\n")


@pytest.mark.parametrize("text", ["", "No thought.", "a < b", "Use <think> in the text.", "<b>bold</b>"])
def test_an_answer_without_a_block_is_all_answer(text: str) -> None:
    assert parts(text, ended=True) == Parts("", text)


def test_a_prompt_that_opened_the_block() -> None:
    assert parts("hm", opened=True) == Parts("hm", "", thinking=True, begins=2)
    assert parts("hm</think>\nyes", opened=True).said == "yes"
    assert not opens("...assistant\n")


def test_a_closing_mark_on_its_own_line_is_enough() -> None:
    assert parts("hm\n</think>\nyes") == Parts("hm", "yes", begins=12)


def test_an_answer_about_marks_is_an_answer() -> None:
    assert parts("Close it by `</think>`, then go on.").said == "Close it by `</think>`, then go on."


def test_a_block_that_never_closes_is_a_thought() -> None:
    assert parts("<think>hm </thi", ended=True) == Parts("hm </thi", "", thinking=True, begins=15)


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "<", "/", "th", "ink>", " ", "\n", "a", "</"]), max_size=12)
)
def test_both_parts_only_grow_while_the_text_grows(pieces: list[str]) -> None:
    text, before = "<think>", Parts("", "")
    for piece in pieces:
        text += piece
        now = parts(text)
        assert now.thought.startswith(before.thought)
        assert now.said.startswith(before.said)
        before = now
    end = parts(text, ended=True)
    assert end.thought.startswith(before.thought.rstrip()) and end.said.startswith(before.said)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_no_piece_of_a_mark_is_ever_shown(size: int) -> None:
    for end in range(size, len(THOUGHTFUL) + size, size):
        found = parts(THOUGHTFUL[:end])
        assert "<think" not in found.thought + found.said
        assert not found.said or "The answer: a < b.".startswith(found.said)
        assert "One < two.\n</thin no.".startswith(found.thought)


def test_tokens_are_counted_up_to_the_answer() -> None:
    pieces = [Piece(n, text, "plain") for n, text in enumerate(["<think>", "h", "m", "</think>", "", "yes"])]
    assert tokens_before(pieces, len("<think>hm</think>")) == 4


def test_channels_before_the_final_one_are_the_thought() -> None:
    text = "".join(CHANNELS)
    found = parts(text, ended=True)
    assert found == Parts(
        "Hm, a < b.\n\nAnd <|en.", "The answer: `<|end|>` and <|x.", begins=text.index("The answer")
    )
    assert parts(f"{text}<|end|>").said == found.said, "the mark of the end is no part of it"


@pytest.mark.parametrize("end", range(len("".join(CHANNELS)) + 1))
def test_channels_grow_without_a_piece_of_a_mark(end: int) -> None:
    text = "".join(CHANNELS)
    whole, now, stopped = parts(text), parts(text[:end]), parts(text[:end], ended=True)
    assert whole.thought.startswith(now.thought) and whole.said.startswith(now.said)
    assert "assistant" not in now.thought + now.said + stopped.thought + stopped.said
    assert now.begins <= len(text[:end]) and text[:end][now.begins :].startswith(now.said)


def test_an_answer_in_channels_may_have_no_thought() -> None:
    head = "<|channel|>final<|message|>"
    assert parts(f"{head}Yes.") == Parts("", "Yes.", begins=len(head))


@pytest.mark.parametrize("rest", ["And then it forgot its format.", "<|start|>" + "x" * 90])
def test_what_belongs_to_no_channel_is_not_lost(rest: str) -> None:
    assert parts(CHANNELS[0] + rest).said == rest


def test_later_turns_read_the_final_channel_alone() -> None:
    said = Message("assistant", "".join(CHANNELS), (1, 2))
    assert reread(said) == Message("assistant", "The answer: `<|end|>` and <|x.")
    assert reread(Message("assistant", CHANNELS[0])).text == ""
    for other in (Message("user", said.text), Message("assistant", THOUGHTFUL, (1, 2))):
        assert reread(other) is other


def test_control_tokens_are_spelt_where_all_of_a_format_are_there() -> None:
    assert spelt({"[THINK]", "[/THINK]", "</think>", "<|im_end|>", "<|end|>", "<|start|>"}) == [
        "[THINK]",
        "[/THINK]",
    ]
    assert spelt({"<|channel>", "<channel|>", "<|turn>"}) == ["<|channel>", "<channel|>"]
    assert len(spelt({"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|return|>"})) == 4
    assert spelt({"<s>", "</s>"}) == []
