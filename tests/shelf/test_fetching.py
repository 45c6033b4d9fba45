"""Downloads beside a screen: the real client against a Hub on the loopback, seen through what `poll` tells."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localspec.catalog import FileRef, Pair
from localspec.shelf.fetching import Download, Downloads
from tests.conftest import Models
from tests.hub.conftest import DRAFT, REPO, TARGET, draft, finals, hub, parts, stocked, target  # noqa: F401
from tests.hub.server import PIECE, Fault, Hub

PAIR = Pair("noise", "Noise", FileRef(repo=REPO, file=TARGET), FileRef(repo=REPO, file=DRAFT))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HUB_DOWNLOAD_TIMEOUT", "60")  # what stalls is stopped by the user here
    return tmp_path / "hub"


@pytest.fixture
def download() -> Iterator[Download]:
    made = Download(PAIR)
    yield made
    made.cancel()
    made.wait(10)


def until(download: Download, holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, (download.state, download.error, download.bars)
        download.poll()
        time.sleep(0.005)


def ended(download: Download) -> None:
    until(download, lambda: not download.is_running)


def test_a_plan_waits_for_a_yes(stocked: Hub, download: Download, cache: Path, target: bytes) -> None:  # noqa: F811
    download.ask()
    assert download.state == "asking"
    until(download, lambda: download.planned)
    assert download.state == "planned"
    assert download.planned is not None
    assert download.planned.plan.missing_bytes > len(target)
    assert download.planned.free > 0
    assert finals(cache) == parts(cache) == []


def test_everything_that_is_missing_comes_with_a_bar_for_each_role(
    stocked: Hub,  # noqa: F811
    download: Download,
    cache: Path,
    target: bytes,  # noqa: F811
    draft: bytes,  # noqa: F811
) -> None:
    download.begin()
    ended(download)
    assert (download.state, download.error) == ("whole", None)
    assert [(bar.role, bar.done, bar.total) for bar in download.bars] == [
        ("target", len(target), len(target)),
        ("draft", len(draft), len(draft)),
    ]
    assert download.share == 1.0
    assert len(finals(cache)) == 4


def test_what_was_stopped_goes_on_where_it_stopped(
    stocked: Hub,  # noqa: F811
    download: Download,
    cache: Path,
    target: bytes,  # noqa: F811
) -> None:
    stocked.faults.append(Fault(len(target) // 2, "stall"))
    download.begin()
    until(download, lambda: stocked.stalled.is_set() and download.share)
    assert download.share < 1
    download.cancel()
    assert download.state == "stopping"
    ended(download)
    assert download.state == "stopped"
    (part,) = parts(cache)
    kept = part.stat().st_size
    download.begin()
    ended(download)
    assert download.state == "whole"
    assert stocked.gets(TARGET)[-1].range == f"bytes={kept}-"


def test_a_refusal_is_a_sentence_and_can_be_tried_again(hub: Hub, download: Download, models: Models) -> None:  # noqa: F811
    hub.add(REPO, TARGET, Path(models("noise")).read_bytes(), gated=True)
    download.ask()
    ended(download)
    assert download.state == "failed"
    assert download.error is not None
    assert "accepted its terms" in download.error.message
    hub.repositories[REPO].gated = False
    hub.add(REPO, DRAFT, Path(models("noise_q8")).read_bytes())
    download.begin()
    ended(download)
    assert download.state == "whole"


def test_a_bug_on_the_thread_is_news_and_no_silence(
    stocked: Hub,  # noqa: F811
    download: Download,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("localspec.hub.free_bytes", lambda _: 1 // 0)
    download.ask()
    ended(download)
    assert download.state == "failed"
    assert "ZeroDivisionError" in str(download.error)


def test_an_answer_that_nobody_waits_for_any_more_changes_nothing(stocked: Hub, download: Download) -> None:  # noqa: F811
    download.ask()
    download.cancel()
    ended(download)
    assert download.state == "stopped"


def test_each_pair_has_one_download_and_leaving_stops_all(stocked: Hub, target: bytes) -> None:  # noqa: F811
    downloads = Downloads()
    stocked.faults.append(Fault(PIECE, "stall"))
    running = downloads.of(PAIR)
    assert downloads.of(PAIR) is running
    running.begin()
    until(running, lambda: running.bars and running.bars[0].done)
    downloads.close()
    assert running._thread is not None
    assert not running._thread.is_alive()
