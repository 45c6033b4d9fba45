"""Thoughts through the engine: a template that opens them, and marks that are control tokens of the vocabulary."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from localspec.chat.message import Message
from localspec.chat.thinking import parts
from localspec.engine.messages import Ready
from tests import ggufs
from tests.engine.driver import Driver

OPENS = ggufs.CHATML.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}")


@pytest.mark.parametrize(("template", "thinks"), [(OPENS, True), (ggufs.CHATML, False), (None, False)])
def test_ready_says_where_answers_begin(tmp_path: Path, template: str | None, thinks: bool) -> None:
    driver = Driver(str(ggufs.noise(tmp_path / "model.gguf", template=template)), threads=1, n_ctx=256)
    try:
        (ready,) = driver.of(Ready)
        assert ready.thinks == thinks
    finally:
        driver.close()


CONTROLS = (
    "<|channel|>",
    "<|message|>",
    "<|start|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "[THINK]",
    "[/THINK]",
    "[X]",
)
VOCABULARY = ggufs.spm(CONTROLS, ("analysis", "final", "assistant", "user", "hm", "yes"))
# As gpt-oss has it: the template prints the marks, and refuses an answer that has them already.
IN_CHANNELS = (
    "{% for m in messages %}{% if '<|channel|>' in m.content %}{{ raise_exception('channels') }}{% endif %}"
    "<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>{{ m.content }}<|end|>"
    "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}"
)
ONE_THOUGHT = (
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes",
    *("hm", "yes"),
)


def ids(*texts: str) -> list[int]:
    return [VOCABULARY.texts.index(text) for text in texts]


def following(*texts: str) -> ggufs.Table:
    """Each token is followed by one of those that follow it here."""
    after: dict[int, set[int]] = {}
    for a, b in pairwise(ids(*texts)):
        after.setdefault(a, set()).add(b)
    return {a: dict.fromkeys(each, 1 / len(each)) for a, each in after.items()}


def test_control_tokens_of_a_thought_are_told_and_others_are_not(tmp_path: Path) -> None:
    table = following("t", "[THINK]", "hm", "[X]", "[/THINK]", "yes", "</s>")
    template = "{% for m in messages %}{{ m.content }}t{% endfor %}"
    model = ggufs.chain(tmp_path / "model.gguf", table, template=template, pieces=VOCABULARY)
    driver = Driver(str(model), threads=1)
    try:
        question = Message("user", "x")
        answer = driver.ask(question, max_tokens=5)
        assert answer.text == "[THINK]hm[/THINK]yes"
        assert [piece.text for piece in answer.pieces] == ["[THINK]", "hm", "", "[/THINK]", "yes"]
        again = driver.ask(question, answer.message(), Message("user", "x"), max_tokens=1)
        assert again.reused_tokens == len(ids("<s>", "x", "t", "[THINK]", "hm", "[X]", "[/THINK]"))
        grammar = 'root ::= "yes" | "[THINK]"'
        assert driver.ask(question, grammar=grammar, max_tokens=5).token_ids[0] not in ids("[THINK]", "[/THINK]")
    finally:
        driver.close()


def test_an_answer_in_channels_is_told_apart_and_its_thought_is_not_read_again(tmp_path: Path) -> None:
    thought = ("t", "<|channel|>", "analysis", "<|message|>", "hm", "<|end|>", "<|start|>")
    table = following(*thought, "assistant", "<|channel|>", "final", "<|message|>", "yes", "<|return|>")
    model = ggufs.chain(tmp_path / "model.gguf", table, template=IN_CHANNELS, pieces=VOCABULARY)
    driver = Driver(str(model), threads=1)
    try:
        # This model knows its last token only: with some seeds it writes in the order of a real one.
        asked = (driver.ask("x", temperature=1.0, seed=seed, max_tokens=20) for seed in range(300))
        answer = next(each for each in asked if each.text == ONE_THOUGHT[0])
        found = parts(answer.text, ended=True)
        assert (found.thought, found.said) == ONE_THOUGHT[1:]
        driver.ask("x", answer.message(), "x", max_tokens=1)
        assert not any("template" in notice for notice in driver.notices)
        loaded = driver.engine.loaded
        assert loaded is not None
        read = b"".join(loaded.target.vocab.spellings[i] for i in loaded.target.cached).decode()
        assert "<|start|>assistant<|channel|>final<|message|>yes<|end|>" in read and "hm" not in read
    finally:
        driver.close()
