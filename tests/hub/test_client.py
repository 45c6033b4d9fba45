"""`transfer = "xet"`: the Hub's own client. The loopback Hub has no Xet, so it takes its plain path here."""

from __future__ import annotations

from pathlib import Path

import pytest

from localspec import hub as client
from localspec.catalog import Pair
from localspec.errors import LocalspecError
from localspec.hub import Progress
from localspec.hub.types import Cancelled
from tests.hub.conftest import REPO, TARGET, finals
from tests.hub.server import Hub


def test_it_fetches_and_reports(pair: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    seen: list[Progress] = []
    plan = client.plan(pair, cache=cache)
    path, _ = client.fetch(plan, seen.append, lambda: False, transfer="xet")
    assert path.read_bytes() == target
    assert seen[-1].done == seen[-1].total
    assert all(file.ours for file in client.scan(cache).files)


def test_it_can_be_stopped(pair: Pair, cache: Path, stocked: Hub) -> None:
    plan = client.plan(pair, cache=cache)
    with pytest.raises(Cancelled):
        client.fetch(plan, lambda _: None, lambda: bool(stocked.gets(TARGET)), transfer="xet")
    assert finals(cache) == []


def test_its_bytes_are_looked_at(pair: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    plan = client.plan(pair, cache=cache)
    stocked.repositories[REPO].files[TARGET] = target[:-1] + b"?"
    with pytest.raises(LocalspecError, match="not those that the Hub lists"):
        client.fetch(plan, lambda _: None, lambda: False, transfer="xet")
    assert finals(cache) == []


def test_its_refusals_are_told_apart(pair: Pair, cache: Path, stocked: Hub) -> None:
    plan = client.plan(pair, cache=cache)
    stocked.repositories[REPO].gated = True
    with pytest.raises(LocalspecError, match="terms"):
        client.fetch(plan, lambda _: None, lambda: False, transfer="xet")
