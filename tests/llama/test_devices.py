"""What llama.cpp says about the machine that the tests run on."""

from __future__ import annotations

from localspec.llama import devices


def test_there_is_always_a_processor() -> None:
    cpus = [device for device in devices.list_devices() if device.kind == "cpu"]
    assert len(cpus) == 1
    cpu = cpus[0]
    assert cpu.backend == "CPU" and cpu.name == "CPU"
    assert cpu.description == devices.cpu_name() != ""
    assert 0 < cpu.free <= cpu.total


def test_versions() -> None:
    versions = devices.versions()
    assert versions.llama_cpp_python == "0.3.36"
    assert versions.llama_cpp[0].isdigit()
    assert versions.system_info.startswith("CPU : ")


def test_every_device_belongs_to_a_backend_of_this_build() -> None:
    assert {device.backend for device in devices.list_devices()} <= set(devices.backends())
