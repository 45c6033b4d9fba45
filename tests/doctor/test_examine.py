"""What the doctor finds missing, and which command it names, on machines that are described and not owned."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.doctor.examine import LITTLE, Gap, gaps
from localspec.doctor.facts import Card, Facts, Hub, Place, Terminal
from tests.doctor.machines import BUILD, CUDA, GB, METAL, NVIDIA, ON_GPU, WELL


def the_gap(facts: Facts) -> Gap:
    (gap,) = gaps(facts)
    return gap


class TestGraphics:
    def test_a_machine_without_a_gap_has_none(self) -> None:
        assert gaps(WELL) == ()
        assert gaps(replace(WELL, build=ON_GPU, cards=(NVIDIA,))) == ()

    def test_an_nvidia_card_that_a_build_for_the_processor_leaves_idle(self) -> None:
        gap = the_gap(replace(WELL, cards=(NVIDIA,)))
        assert gap.what.startswith("The NVIDIA GeForce RTX 4090 is not used")
        assert "slower" in gap.consequence
        assert gap.command == (
            'CMAKE_ARGS="-DGGML_CUDA=on" \\\n'
            "  pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36"
        )
        assert gap.first == ""

    def test_windows_sets_the_variable_its_own_way(self) -> None:
        gap = the_gap(replace(WELL, system="windows", cards=(NVIDIA,), tools=("nvcc", "cl")))
        assert gap.command.splitlines() == [
            '$env:CMAKE_ARGS = "-DGGML_CUDA=on"',
            "pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36",
        ]

    @pytest.mark.parametrize(
        ("tools", "needs"),
        [
            (("c++",), "the CUDA toolkit (nvcc is not on the PATH) first"),
            (("nvcc",), "needs a C++ compiler first"),
            ((), "the CUDA toolkit (nvcc is not on the PATH) and a C++ compiler first"),
        ],
    )
    def test_what_the_build_itself_lacks_is_said(self, tools: tuple[str, ...], needs: str) -> None:
        assert needs in the_gap(replace(WELL, cards=(NVIDIA,), tools=tools)).first

    def test_a_card_without_a_driver_needs_no_build(self) -> None:
        gap = the_gap(replace(WELL, cards=(Card("NVIDIA", driver=False),)))
        assert "has no driver" in gap.what and "pip" not in gap.command

    def test_a_cuda_build_that_sees_no_card_needs_no_build(self) -> None:
        gap = the_gap(replace(WELL, cards=(NVIDIA,), build=replace(BUILD, backends=("CUDA", "CPU"))))
        assert "does not see" in gap.what and gap.command == "nvidia-smi"
        assert "CUDA_VISIBLE_DEVICES" in gap.first

    def test_a_card_that_is_used_through_another_backend_is_used(self) -> None:
        vulkan = replace(CUDA, name="Vulkan0", backend="Vulkan")
        assert gaps(replace(WELL, cards=(NVIDIA,), build=replace(BUILD, devices=(vulkan,)))) == ()

    def test_a_mac_without_metal(self) -> None:
        mac = replace(WELL, system="macos", cards=(Card("Apple", "arm64"),), cpu_flags=(), tools=())
        gap = the_gap(mac)
        assert "-DGGML_METAL=on" in gap.command and "xcode-select --install" in gap.first
        assert gaps(replace(mac, build=replace(BUILD, devices=(METAL,)))) == ()

    @pytest.mark.parametrize(
        ("card", "found"),
        [
            (Card("AMD"), True),
            (Card("Intel", "Intel(R) Arc(TM) A770"), False),
            (Card("Intel", "Intel Arc A770"), True),
            (Card("Intel", "Intel UHD Graphics"), False),
            (Card("Intel"), False),
        ],
    )
    def test_others_go_through_vulkan_where_that_gains_something(self, card: Card, found: bool) -> None:
        commands = [gap.command for gap in gaps(replace(WELL, cards=(card,), tools=("c++", "glslc")))]
        assert [("-DGGML_VULKAN=on" in command) for command in commands] == [True] * found


class TestBuild:
    def test_a_build_that_does_not_start(self) -> None:
        gap = the_gap(replace(WELL, build=None, trouble="libcudart.so.12: cannot open shared object file"))
        assert "libcudart.so.12" in gap.what and "No model" in gap.consequence
        assert gap.command == "pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36"

    def test_another_version_than_the_one_that_localspec_names(self) -> None:
        gap = the_gap(replace(WELL, build=replace(BUILD, llama_cpp_python="0.3.40")))
        assert "0.3.40" in gap.what and gap.command.endswith("llama-cpp-python==0.3.36")

    def test_a_missing_function_names_itself_and_what_it_switches_off(self) -> None:
        reason = "eagle3 can't run: this build of llama.cpp (9) does not export llama_get_embeddings_layer_inp"
        gap = the_gap(replace(WELL, build=replace(BUILD, missing={"mtp": None, "eagle3": reason, "dflash": "x"})))
        assert gap.what == reason + "."
        assert gap.consequence.startswith("Switched off: eagle3, dflash.")

    def test_a_build_for_any_processor_leaves_this_one_below_its_speed(self) -> None:
        slow = replace(WELL, build=replace(BUILD, features=("AVX",)))
        gap = the_gap(slow)
        assert "AVX2, F16C, FMA" in gap.what and "-DGGML_NATIVE=on" in gap.command
        assert gaps(replace(slow, build=replace(ON_GPU, features=("AVX",)))) == ()


class TestSurroundings:
    def test_a_hub_that_does_not_answer(self) -> None:
        gap = the_gap(replace(WELL, hub=Hub("https://hub", reachable=False, trouble="timed out")))
        assert "https://hub can't be reached: timed out" in gap.what and "HTTPS_PROXY" in gap.command

    @pytest.mark.parametrize("hub", [Hub("https://hub", offline=True), Hub("https://hub", reachable=True)])
    def test_offline_by_choice_and_a_missing_token_are_no_gaps(self, hub: Hub) -> None:
        assert gaps(replace(WELL, hub=hub)) == ()

    def test_a_full_disk_and_a_folder_that_is_not_ours(self) -> None:
        full = Place("models", "/m", True, LITTLE - 1)
        assert "HF_HOME" in the_gap(replace(WELL, places=(full,))).command
        assert gaps(replace(WELL, places=(replace(full, free=LITTLE),))) == ()
        assert gaps(replace(WELL, places=(replace(full, name="cache"),))) == ()
        gap = the_gap(replace(WELL, places=(Place("config", "/c", False, GB),)))
        assert "/c" in gap.what and "XDG_CONFIG_HOME" in gap.command

    @pytest.mark.parametrize(
        ("terminal", "command"),
        [
            (Terminal(True, "dumb", 0, 80, 24), "export TERM=xterm-256color"),
            (Terminal(True, "xterm", 16, 40, 24), "localspec chat --plain"),
            (Terminal(True, "xterm", 16, 80, 10), "localspec chat --plain"),
        ],
    )
    def test_terminals_in_which_the_chat_cannot_be_drawn(self, terminal: Terminal, command: str) -> None:
        assert the_gap(replace(WELL, terminal=terminal)).command == command
        assert gaps(replace(WELL, terminal=replace(terminal, tty=False))) == ()
