"""What is stored, and deleting it: nothing goes that somebody else needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, scan_cache_dir

from localspec import hub as client
from localspec.catalog import FileRef, Pair
from localspec.errors import LocalspecError
from localspec.hub import store
from localspec.hub.types import Cancelled
from tests.hub.conftest import DRAFT, REPO, TARGET, bring, finals, parts
from tests.hub.server import Fault, Hub


@pytest.fixture
def alone(pair: Pair) -> Pair:
    return Pair("alone", "Alone", pair.target)


def leave_a_part(pair: Pair, cache: Path, hub: Hub, at: int = 100_000) -> None:
    hub.faults.append(Fault(at, "stall"))
    plan = client.plan(pair, cache=cache)

    def arrived() -> bool:
        return hub.stalled.is_set() and parts(cache)[0].stat().st_size == at

    with pytest.raises(Cancelled):
        client.fetch(plan, lambda _: None, arrived, patience=client.Patience(stall_s=60))


def test_an_empty_cache(cache: Path) -> None:
    stored = client.scan(cache)
    assert (stored.files, stored.partials, stored.size) == ((), (), 0)
    assert client.remove(stored, ()) == 0


def test_files_with_their_size_and_whose_they_are(
    alone: Pair, cache: Path, stocked: Hub, target: bytes, draft: bytes
) -> None:
    bring(alone, cache)
    hf_hub_download(REPO, DRAFT, cache_dir=cache, endpoint=stocked.url)
    stored = client.scan(cache)
    assert [(file.name, file.size, file.ours) for file in stored.files] == [
        (TARGET, len(target), True),
        (DRAFT, len(draft), False),
    ]
    assert stored.size == len(target) + len(draft)


def test_a_part_with_its_name(alone: Pair, cache: Path, stocked: Hub) -> None:
    leave_a_part(alone, cache, stocked)
    (part,) = client.scan(cache).partials
    assert (part.repo, part.name, part.size, part.ours, part.busy) == (REPO, TARGET, 100_000, True, False)


def test_a_file_goes_and_leaves_a_cache_that_is_sound(
    pair: Pair, cache: Path, stocked: Hub, target: bytes, draft: bytes
) -> None:
    bring(pair, cache)
    stored = client.scan(cache)
    assert client.remove(stored, [file for file in stored.files if file.name == TARGET]) == len(target)
    assert [file.name for file in client.scan(cache).files] == [DRAFT]
    assert not scan_cache_dir(cache).warnings
    stored = client.scan(cache)
    assert client.remove(stored, stored.files) == len(draft)
    assert not list(cache.glob("models--*")), "the last file takes the folder with it"
    assert not scan_cache_dir(cache).warnings


def test_every_commit_that_has_the_file_is_cleared(alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    bring(alone, cache)
    stocked.add(REPO, "other.gguf", target + b"x")
    bring(alone, cache)
    (file,) = client.scan(cache).files
    assert len(file.commits) == 2
    assert client.remove(client.scan(cache), [file]) == len(target)
    assert finals(cache) == []


def test_the_same_bytes_under_another_name_stay(alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    stocked.add(REPO, "copy.gguf", target)
    bring(alone, cache)
    bring(Pair("copy", "Copy", FileRef(repo=REPO, file="copy.gguf")), cache)
    assert len(stocked.gets(TARGET) + stocked.gets("copy.gguf")) == 1
    stored = client.scan(cache)
    assert client.remove(stored, [file for file in stored.files if file.name == TARGET]) == 0
    assert client.scan(cache).files[0].paths[0].read_bytes() == target


def test_a_part_goes(alone: Pair, cache: Path, stocked: Hub) -> None:
    leave_a_part(alone, cache, stocked)
    stored = client.scan(cache)
    assert client.remove(stored, (), stored.partials) == 100_000
    assert not parts(cache) and not list(cache.glob("models--*/blobs/*.json"))


def test_deleting_a_file_keeps_the_parts_of_others(pair: Pair, alone: Pair, cache: Path, stocked: Hub) -> None:
    leave_a_part(alone, cache, stocked)
    assert pair.draft
    bring(Pair("draft", "Draft", pair.draft), cache)
    stored = client.scan(cache)
    client.remove(stored, stored.files)
    assert parts(cache)


def test_what_is_being_downloaded_is_not_deleted(alone: Pair, cache: Path, stocked: Hub) -> None:
    leave_a_part(alone, cache, stocked)
    file = client.plan(alone, cache=cache).files[0]
    with store.held(store.lock(cache, file), lambda: None):
        stored = client.scan(cache)
        assert stored.partials[0].busy
        with pytest.raises(LocalspecError, match="right now"):
            client.remove(stored, (), stored.partials)
    assert parts(cache)
