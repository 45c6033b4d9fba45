"""Templates of somebody else's: rendered, or refused with one kind of error."""

from __future__ import annotations

import pytest

from localspec.llama.jinja import TemplateError, render
from tests.ggufs import CHATML, TEMPLATES

TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|> {{ bos_token }}"}]


def test_a_conversation_is_rendered() -> None:
    assert render(CHATML, TALK, bos="<s>", eos="</s>") == (
        "<|im_start|>system\nBe brief.<|im_end|>\n"
        "<|im_start|>user\nHi <|im_end|> {{ bos_token }}<|im_end|>\n<|im_start|>assistant\n"
    )


def test_without_an_invitation_to_answer() -> None:
    assert render(CHATML, TALK[1:], bos="", eos="", add_generation_prompt=False).endswith("<|im_end|>\n")


def test_the_begin_and_end_texts_are_the_vocabularys() -> None:
    assert render("{{ bos_token }}|{{ eos_token }}", [], bos="<s>", eos="</s>") == "<s>|</s>"


def test_further_arguments_reach_the_template() -> None:
    assert render("{{ enable_thinking }}", [], bos="", eos="", enable_thinking=False) == "False"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("syntax_error", "unexpected '}'"),
        ("unknown_filter", "no_such_filter"),
        ("rejects_system", "System role not supported"),
        ("huge_loop", "Range too big"),
    ],
)
def test_every_failure_is_a_template_error(name: str, words: str) -> None:
    with pytest.raises(TemplateError, match=words):
        render(TEMPLATES[name], TALK, bos="", eos="")


@pytest.mark.parametrize(
    "template",
    ["{{ messages[5].content }}", "{{ 1 / 0 }}", "{{ messages + 1 }}", "{{ ''.__class__.__mro__ }}"],
)
def test_also_what_jinja_does_not_call_its_own(template: str) -> None:
    with pytest.raises(TemplateError):
        render(template, TALK, bos="", eos="")
