"""Answers under grammars and schemas: real models, real text, with drafts and without."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from localspec.grammar.schema import to_gbnf
from localspec.spec.settings import Sampling
from localspec.spec.types import Finish
from tests.conftest import Models
from tests.engine.driver import Driver
from tests.grammar.jsons import valid
from tests.grammar.texts import follows

WORDS = 'root ::= ("ab" | "cd" | "é"){6,20} "."'
CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "minLength": 1, "maxLength": 16},
        "population": {"type": "integer", "minimum": 0},
        "sights": {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 1, "maxItems": 3},
        "capital": {"type": "boolean"},
    },
    "required": ["city", "population", "sights"],
}
MOOD = {"anyOf": [{"enum": ["good", "bad"]}, {"type": "object", "properties": {"score": {"type": "number"}}}]}


@pytest.fixture
def driver(noise: str) -> Iterator[Driver]:
    made = Driver(noise, threads=1, n_ctx=512)
    yield made
    made.engine.close()


@pytest.fixture
def demo(demo_model: str) -> Iterator[Driver]:
    made = Driver(demo_model, threads=1, n_ctx=1024)
    yield made
    made.engine.close()


@pytest.mark.parametrize("seed", range(3))
def test_every_text_follows_the_grammar_and_ends_with_it(driver: Driver, seed: int) -> None:
    wild = Sampling(top_k=0, top_p=1.0, min_p=0.0)
    answer = driver.ask("abcdabcdabcd", grammar=WORDS, temperature=2.0, sampling=wild, seed=seed)
    assert answer.finish is Finish.STOP
    assert follows(WORDS, answer.text)


def test_greedy_text_is_that_of_plain_decoding(driver: Driver) -> None:
    drafted = driver.ask("abcdabcdabcd", grammar=WORDS)
    assert drafted.stats.drafted > 0
    plain = driver.ask("abcdabcdabcd", grammar=WORDS, method="off")
    assert (drafted.token_ids, drafted.text) == (plain.token_ids, plain.text)


def test_a_stopped_answer_goes_on_where_its_grammar_was(driver: Driver) -> None:
    whole = driver.ask("abcdabcdabcd", grammar=WORDS)
    for cut in (1, 4, len(whole.token_ids) - 1):
        rest = driver.ask("abcdabcdabcd", grammar=WORDS, resume=whole.token_ids[:cut])
        assert rest.token_ids == whole.token_ids[cut:]


def test_an_answer_that_breaks_the_grammar_can_not_go_on(driver: Driver) -> None:
    broken = driver.ask("abcdabcdabcd", grammar=WORDS, resume=(3 + ord("x"),))
    assert broken.error is not None and "grammar" in broken.error


def test_a_grammar_that_can_not_be_used_is_an_error_and_the_next_answer_is_not(driver: Driver) -> None:
    refused = driver.ask("hello", grammar='root ::= "a"{3,2}')
    assert refused.error is not None and "line 1" in refused.error
    assert driver.ask("hello", max_tokens=3).error is None


@pytest.mark.parametrize("schema", [CITY, MOOD], ids=["city", "mood"])
@pytest.mark.parametrize("temperature", [0.0, 0.8, 1.5])
def test_every_answer_of_a_real_model_parses_and_validates(
    demo: Driver, schema: object, temperature: float
) -> None:
    grammar = to_gbnf(json.dumps(schema))
    for seed in range(2):
        answer = demo.ask("Describe Paris as JSON.", grammar=grammar, temperature=temperature, seed=seed)
        assert answer.finish is Finish.STOP
        assert valid(json.loads(answer.text), schema, schema), answer.text


def test_greedy_json_of_a_real_model_is_that_of_plain_decoding(demo: Driver) -> None:
    grammar = to_gbnf(json.dumps(CITY))
    drafted = demo.ask("Describe Paris as JSON.", grammar=grammar)
    plain = demo.ask("Describe Paris as JSON.", grammar=grammar, method="off")
    assert drafted.token_ids == plain.token_ids
    assert plain.text.startswith("{")


def test_without_a_grammar_the_same_engine_is_free_again(models: Models, driver: Driver) -> None:
    driver.ask("hello", grammar=WORDS)
    assert not follows(WORDS, driver.ask("hello", max_tokens=20).text)
