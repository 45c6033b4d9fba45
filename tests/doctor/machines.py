"""Machines for the doctor, described instead of owned."""

from __future__ import annotations

from dataclasses import replace

from localspec.doctor.facts import Build, Card, Device, Facts, Hub, Place, Terminal

GB = 1_000_000_000
CPU = Device("CPU", "AMD Ryzen 7", "cpu", "CPU", 24 * GB, 32 * GB)
CUDA = Device("CUDA0", "NVIDIA GeForce RTX 4090", "gpu", "CUDA", 22 * GB, 24 * GB)
METAL = Device("MTL0", "Apple M3", "gpu", "MTL", 12 * GB, 16 * GB)

BUILD = Build(
    llama_cpp_python="0.3.36",
    llama_cpp="0.5.0-dev",
    features=("AVX", "AVX2", "F16C", "FMA"),
    backends=("CPU",),
    devices=(CPU,),
    cores=8,
    cpus=16,
    missing={"mtp": None, "eagle3": None, "dflash": None},
    flash_attn="on",
    cache_type="q8_0",
)
ON_GPU = replace(BUILD, backends=("CUDA", "CPU"), devices=(CUDA, CPU), flash_attn="auto", cache_type="f16")
WELL = Facts(
    system="linux",
    os="Linux-6.1",
    machine="x86_64",
    python="3.11.9",
    packages={"localspec": "0.1.0", "llama-cpp-python": "0.3.36", "textual": "8.2.8", "huggingface_hub": "2.4.0"},
    pinned="0.3.36",
    build=BUILD,
    trouble="",
    cards=(),
    cpu_flags=("avx", "avx2", "f16c", "fma"),
    tools=("nvcc", "glslc", "c++"),
    hub=Hub("https://huggingface.co", reachable=True),
    places=(Place("models", "~/.cache/huggingface/hub", True, 80 * GB),),
    terminal=Terminal(True, "xterm-256color", 256, 100, 40),
)
NVIDIA = Card("NVIDIA", "NVIDIA GeForce RTX 4090")
