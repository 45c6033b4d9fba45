"""What the doctor prints: every fact, nothing wider than 80 columns, and no secret."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from localspec.doctor.facts import Facts, Hub, Measured, Terminal
from localspec.doctor.report import WIDTH, document, drafters, lines
from tests.doctor.machines import BUILD, NVIDIA, ON_GPU, WELL

MISSING = {"mtp": None, "eagle3": "eagle3 can't run: x is not exported", "dflash": "dflash can't run: x"}
MEASURED = Measured("SmolLM2", "flash attention, cache q8_0/q8_0", "bit-identical up to 16 rows")


def text(facts: Facts) -> str:
    return "\n".join(lines(facts))


@pytest.mark.parametrize(
    "facts",
    [
        WELL,
        replace(WELL, build=ON_GPU, cards=(NVIDIA,)),
        replace(
            WELL, cards=(NVIDIA,), tools=(), hub=Hub("https://h", reachable=False, trouble="no such host " * 9)
        ),
        replace(WELL, build=None, trouble="cannot open shared object file: " + "no such file " * 20),
        replace(WELL, build=replace(BUILD, missing=MISSING, measured=(MEASURED,) * 3), system="windows"),
    ],
)
def test_it_fits_eighty_columns(facts: Facts) -> None:
    assert [line for line in lines(facts) if len(line) > WIDTH] == []


def test_all_is_well() -> None:
    assert text(WELL).endswith("\nNothing is missing.")


def test_a_gap_says_what_so_what_and_what_to_type() -> None:
    said = text(replace(WELL, cards=(NVIDIA,)))
    assert "1 thing to mend" in said and "Not used          NVIDIA GeForce RTX 4090" in said
    gap = said[said.index("\n* ") :]
    assert gap.index("is not used") < gap.index("slower") < gap.index("-DGGML_CUDA=on")


def test_devices_have_their_memory_and_defaults_their_reason() -> None:
    said = text(replace(WELL, build=ON_GPU))
    assert "NVIDIA GeForce RTX 4090 (GPU, 22.0 of 24.0 GB free)" in " ".join(said.split())
    assert "flash attention auto, cache f16: llama.cpp uses" in " ".join(said.split())
    assert "flash attention on, cache q8_0: on a processor" in " ".join(text(WELL).split())
    assert "8, one for each physical core" in text(WELL)


def test_drafters_that_the_build_cannot_run_are_not_among_those_that_work() -> None:
    facts = replace(WELL, build=replace(BUILD, missing=MISSING), drafters={"mine": "my.module:Mine"})
    assert drafters(facts) == ("lookup", "suffix", "draft", "translated", "cascade", "mtp", "mine")
    assert MISSING["eagle3"] in " ".join(text(facts).split())
    assert drafters(replace(WELL, build=None)) == ()


def test_each_model_is_shown_once_as_it_was_measured_last() -> None:
    older = replace(MEASURED, result="bit-identical up to 8 rows")
    said = text(replace(WELL, build=replace(BUILD, measured=(MEASURED, older))))
    assert said.count("SmolLM2") == 1 and "up to 16 rows" in " ".join(said.split())


@pytest.mark.parametrize(
    ("hub", "sentence"),
    [
        (Hub("https://h", offline=True), "https://h: not asked, HF_HUB_OFFLINE is set"),
        (Hub("https://h", reachable=True, token="HF_TOKEN"), "from HF_TOKEN"),
        (Hub("https://h", reachable=True, token="stored"), "stored on this machine"),
        (Hub("https://h", reachable=True), "none; only gated"),
    ],
)
def test_the_hub_and_the_origin_of_the_token(hub: Hub, sentence: str) -> None:
    assert sentence in " ".join(text(replace(WELL, hub=hub)).split())


def test_a_terminal_that_is_none() -> None:
    assert "the output is no terminal" in text(replace(WELL, terminal=Terminal(False, "", 0, 80, 24)))


def test_what_a_driver_says_cannot_act_on_the_terminal() -> None:
    assert "\x1b" not in text(replace(WELL, build=None, trouble="a\x1b[2J", os="b\x1b[1m"))


def test_json_has_every_fact_and_every_gap() -> None:
    found = json.loads(json.dumps(document(replace(WELL, cards=(NVIDIA,)))))
    assert found["schema"] == "localspec.doctor/1"
    assert found["build"]["devices"][0]["name"] == "CPU" and found["hub"]["token"] == "none"
    assert [gap.keys() for gap in found["gaps"]] == [{"what", "consequence", "command", "first"}]
    assert found["works"][0] == "lookup"
