"""Which variants there are, what they are called, and how a load differs."""

from __future__ import annotations

import pytest

from localspec.bench.variants import Setup, Variant, grid, labels, read_setups
from localspec.errors import UsageError
from localspec.model import ModelSpec


def test_plain_decoding_is_there_once_for_each_load_and_temperature_and_comes_first() -> None:
    setups = (Setup("on", "q8_0", "q8_0"), Setup("off", "f16", "f16"))
    found = grid(("lookup", "off"), (2, 4), ("block", "token"), (0.0, 0.8), setups)
    for setup in setups:
        for temperature in (0.0, 0.8):
            here = [v for v in found if v.setup == setup and v.temperature == temperature]
            assert [v.plain for v in here] == [True, False, False, False, False]
            assert {(v.draft_tokens, v.verifier) for v in here[1:]} == {
                *((2, "block"), (2, "token"), (4, "block"), (4, "token")),
            }
    assert len(set(found)) == len(found) == 20


def test_names_say_what_differs_and_nothing_else() -> None:
    assert list(labels(grid(("off", "lookup"))).values()) == ["off", "lookup"]
    assert list(labels(grid(("lookup",), (None, 4))).values()) == ["off", "lookup k=auto", "lookup k=4"]
    two = labels(grid(("lookup",), temperatures=(0.0, 0.8))).values()
    assert list(two) == ["off T=0", "lookup T=0", "off T=0.8", "lookup T=0.8"]
    loads = labels(grid(("off",), setups=(Setup(), Setup("off", "f16", "f16")))).values()
    assert list(loads) == ["off", "off fa off f16"]


def test_names_are_unique() -> None:
    found = grid(("a", "b"), (None, 0, 3), ("block", "token"), (0.0, 1.0), (Setup(), Setup(threads=2)))
    assert len(set(labels(found).values())) == len(found)


def test_the_baseline_is_plain_decoding_in_the_first_load() -> None:
    first, second = read_setups("on/q8_0, off/f16/bf16")
    assert (second.cache_type_k, second.cache_type_v) == ("f16", "bf16")
    variant = Variant("lookup", 4, "token", 0.8, second)
    assert variant.baseline(first) == Variant(temperature=0.8, setup=first)


@pytest.mark.parametrize("text", ["maybe/f16", "on/f16/f16/f16", "on/", ""])
def test_a_load_that_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--attention"):
        read_setups(text)


def test_a_setup_leaves_alone_what_it_does_not_name() -> None:
    spec = ModelSpec("x.gguf", n_ctx=512, threads=3, cache_type_k="q8_0")
    assert Setup("on", "bf16").of(spec) == ModelSpec(
        "x.gguf", n_ctx=512, threads=3, flash_attn="on", cache_type_k="bf16"
    )
