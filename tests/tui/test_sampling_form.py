"""The form of the sampling settings: made from the fields, checked while it is typed, taken for the next answer."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from textual.widgets import Input

from localspec.commands.sampling_fields import FIELDS
from localspec.spec.settings import Sampling
from localspec.tui.screens.chat import ChatScreen
from localspec.tui.screens.sampling import SamplingScreen
from tests.tui.driving import TINY, WIDE, Driver, open_chat


async def open_form(it: Driver) -> SamplingScreen:
    await it.press("alt+s")
    await it.until(lambda: isinstance(it.app.screen, SamplingScreen), "the form")
    await it.sees("temperature")
    assert isinstance(it.app.screen, SamplingScreen)
    return it.app.screen


async def write(it: Driver, name: str, text: str) -> None:
    it.app.screen.query_one(f"#{name}", Input).value = text
    await it.pilot.pause()


def test_every_number_of_the_settings_is_a_field() -> None:
    lists = {"logit_bias", "banned"}
    assert set(FIELDS) == {each.name for each in fields(Sampling)} - lists


async def test_values_defaults_and_recommendations_are_shown() -> None:
    options = {"sampling": Sampling(top_k=7), "recommended": {"temperature": 0.6}}
    async with open_chat(**options) as it:
        form = await open_form(it)
        assert form.query_one("#top_k", Input).value == "7"
        await it.sees("default 40", "default 0.8 · recommended 0.6", "random")
        await it.press("ctrl+r", "enter")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen))
        assert it.chat.options.sampling == Sampling(top_k=7, temperature=0.6)


async def test_what_is_taken_goes_with_the_next_answer_and_keeps_what_is_no_field() -> None:
    async with open_chat(sampling=Sampling(banned=(3,))) as it:
        await open_form(it)
        await write(it, "temperature", "0")
        await write(it, "seed", "42")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen))
        await it.say("Hi")
        assert it.client.asked[0].sampling == replace(Sampling(banned=(3,)), temperature=0.0, seed=42)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("top_p", "2", "above 0 and at most 1"),
        ("top_k", "1.5", "a whole number"),
        ("temperature", "warm", "a number"),
    ],
)
async def test_a_wrong_value_is_said_in_its_row_and_not_taken(name: str, value: str, said: str) -> None:
    async with open_chat() as it:
        await open_form(it)
        await write(it, name, value)
        await it.sees(said)
        await it.press("enter")
        await it.pilot.pause()
        assert isinstance(it.app.screen, SamplingScreen)
        assert it.chat.options.sampling == Sampling()
        await write(it, name, "1")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen))
        assert getattr(it.chat.options.sampling, name) == 1


async def test_an_empty_value_is_the_default_and_escape_leaves_everything() -> None:
    async with open_chat(sampling=Sampling(seed=5, top_k=3)) as it:
        await open_form(it)
        await write(it, "top_k", "9")
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen))
        assert it.chat.options.sampling.top_k == 3
        await open_form(it)
        await write(it, "seed", "")
        await it.press("enter")
        await it.until(lambda: isinstance(it.app.screen, ChatScreen))
        assert it.chat.options.sampling.seed is None


@pytest.mark.parametrize("size", [TINY, WIDE])
async def test_every_field_can_be_reached(size: tuple[int, int]) -> None:
    async with open_chat(size=size) as it:
        await open_form(it)
        for name, field in FIELDS.items():
            assert it.app.focused and it.app.focused.id == name
            await it.sees(name, field.help[:20])
            await it.press("down")
