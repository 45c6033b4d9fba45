"""How many threads are worth using, on made-up machines."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pytest

from localspec.llama.cpu import cgroup_quota, linux_cores, physical_cores, usable_cpus


def machine(folder: Path, siblings: list[str]) -> Path:
    for cpu, group in enumerate(siblings):
        topology = folder / f"cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(group + "\n")
    return folder


def test_hyper_threads_share_a_core(tmp_path: Path) -> None:
    system = machine(tmp_path, ["0,2", "1,3", "0,2", "1,3"])
    assert linux_cores(system, {0, 1, 2, 3}) == 2


def test_only_allowed_processors_count(tmp_path: Path) -> None:
    system = machine(tmp_path, ["0,2", "1,3", "0,2", "1,3"])
    assert linux_cores(system, {0, 2}) == 1
    assert linux_cores(system, {0, 1}) == 2


def test_a_machine_that_does_not_tell(tmp_path: Path) -> None:
    assert linux_cores(tmp_path, {0, 1, 2}) == 3


def groups(root: Path, membership: str, **files: str) -> float:
    for name, content in files.items():
        path = root / name.replace("__", "/").replace("cpu_max", "cpu.max").replace("cfs", "cpu.cfs")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    (root / "membership").write_text(membership)
    return cgroup_quota(root, root / "membership")


def test_no_quota(tmp_path: Path) -> None:
    assert cgroup_quota(tmp_path, tmp_path / "none") == math.inf
    assert groups(tmp_path, "0::/\n", cpu_max="max 100000\n") == math.inf


def test_version_2_of_the_own_group(tmp_path: Path) -> None:
    assert groups(tmp_path, "0::/a/b\n", a__b__cpu_max="150000 100000\n") == 1.5


def test_the_tightest_group_above_counts(tmp_path: Path) -> None:
    assert groups(tmp_path, "0::/a/b\n", a__b__cpu_max="max 100000", a__cpu_max="200000 100000") == 2


def test_version_1(tmp_path: Path) -> None:
    files = {"cpu__box__cfs_quota_us": "300000", "cpu__box__cfs_period_us": "100000"}
    assert groups(tmp_path, "4:cpu,cpuacct:/box\n3:memory:/other\n", **files) == 3
    (tmp_path / "cpu/box/cpu.cfs_quota_us").write_text("-1")
    assert cgroup_quota(tmp_path, tmp_path / "membership") == math.inf


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="affinity is a Linux thing")
def test_this_process_on_one_processor() -> None:
    allowed = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(allowed)})
        assert (physical_cores(), usable_cpus()) == (1, 1)
    finally:
        os.sched_setaffinity(0, allowed)
    assert 1 <= physical_cores() <= usable_cpus() == len(allowed)
