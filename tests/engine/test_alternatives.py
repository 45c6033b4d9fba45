"""Alternatives change nothing about an answer, and come with their texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.engine.messages import Emitted
from localspec.engine.remote.site import Address, Kind, Site
from tests import ggufs
from tests.engine.driver import Driver


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    folder: Path = tmp_path_factory.mktemp("models")
    driver = Driver(str(ggufs.noise(folder / "model.gguf")), threads=1, n_ctx=512)
    yield driver
    driver.close()


@pytest.mark.parametrize("method", ["off", "lookup", "suffix"])
@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_a_seed_gives_the_same_text_with_and_without(driver: Driver, method: str, temperature: float) -> None:
    asked = {"method": method, "temperature": temperature, "max_tokens": 60, "seed": 7, "remember": False}
    plain = driver.ask("a b a b a b", **asked)
    told = driver.ask("a b a b a b", **asked, logprobs=5)
    assert told.token_ids == plain.token_ids
    assert told.text == plain.text
    assert [made.accepted for made in told.rounds] == [made.accepted for made in plain.rounds]
    assert not any(made.logprobs for made in plain.rounds) and all(made.logprobs for made in told.rounds)


def test_each_alternative_is_named_once(driver: Driver) -> None:
    answer = driver.ask("a b", temperature=0.9, max_tokens=40, logprobs=5)
    named = [token for event in driver.of(Emitted) for token, _ in event.names]
    seen = {token for made in answer.rounds for each in made.logprobs for token, _ in each.top}
    assert sorted(named) == sorted(seen)
    names = dict(pair for event in driver.of(Emitted) for pair in event.names)
    assert names == answer.names
    loaded = driver.engine.loaded
    assert loaded is not None
    assert loaded.target.vocab.name(3 + ord("a")) == "a"
    assert loaded.target.vocab.name(2) == "<|im_end|>", "how likely the end was is worth a word"


@pytest.mark.parametrize(("kind", "sends"), [("localspec", True), ("vLLM", False), ("other", False)])
def test_servers_say_whether_they_send_them(kind: Kind, sends: bool) -> None:
    assert bool(Site(Address("http://a"), "m", kind).ready.no_logprobs) != sends
