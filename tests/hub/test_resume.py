"""A download that breaks goes on where it stopped, and ends with the right bytes or with none."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from localspec import hub as client
from localspec.catalog import Pair
from localspec.errors import LocalspecError
from localspec.hub import Progress, answer
from localspec.hub.part import Part
from localspec.hub.types import Cancelled
from tests.hub.conftest import QUICK, REPO, TARGET, bring, finals, parts
from tests.hub.server import Fault, Hub


@pytest.fixture
def alone(pair: Pair) -> Pair:
    return Pair("alone", "Alone", pair.target)


def stop_at(pair: Pair, cache: Path, hub: Hub, at: int) -> None:
    """A pull that the user stops when `at` bytes are here and the server is silent."""
    hub.faults.append(Fault(at, "stall"))
    plan = client.plan(pair, cache=cache)

    def everything_sent_is_here() -> bool:
        return hub.stalled.is_set() and parts(cache)[0].stat().st_size == at

    with pytest.raises(Cancelled):
        client.fetch(plan, lambda _: None, everything_sent_is_here, patience=client.Patience(stall_s=60))


@pytest.mark.parametrize("how", ["cut", "stall"])
@pytest.mark.parametrize("percent", [10, 40, 99])
def test_a_broken_connection_sends_nothing_twice(
    percent: int, how: str, alone: Pair, cache: Path, stocked: Hub, target: bytes
) -> None:
    at = len(target) * percent // 100
    stocked.faults.append(Fault(at, how))  # type: ignore[arg-type]
    (path,) = bring(alone, cache)
    assert path.read_bytes() == target
    assert [get.range for get in stocked.gets(TARGET)] == [None, f"bytes={at}-"]
    assert stocked.gets(TARGET)[1].headers["If-Range"] == f'"{sha256(target).hexdigest()}"'
    assert stocked.twice(TARGET, len(target)) == 0


def test_it_breaks_and_breaks_and_still_arrives(alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    """More often than it would be tried again without a byte in between."""
    stocked.faults.extend(Fault(at, "cut") for at in range(40_000, len(target), 40_000))
    assert bring(alone, cache)[0].read_bytes() == target
    assert len(stocked.gets(TARGET)) > QUICK.retries + 1
    assert stocked.twice(TARGET, len(target)) == 0


def test_without_a_byte_it_gives_up(alone: Pair, cache: Path, stocked: Hub) -> None:
    stocked.faults.extend([Fault(1000, "cut")] + [Fault(0, "cut")] * 20)
    with pytest.raises(LocalspecError, match="again and again"):
        bring(alone, cache)
    assert len(stocked.gets(TARGET)) == QUICK.retries + 1
    assert parts(cache)[0].stat().st_size == 1000


@pytest.mark.parametrize("percent", [10, 40, 99])
def test_the_next_pull_goes_on(percent: int, alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    at = len(target) * percent // 100
    stop_at(alone, cache, stocked, at)
    assert client.plan(alone, cache=cache).missing_bytes == len(target) - at
    assert bring(alone, cache)[0].read_bytes() == target
    assert stocked.twice(TARGET, len(target)) == 0
    assert not parts(cache)


def test_stopping_does_not_wait_for_a_silent_server(alone: Pair, cache: Path, stocked: Hub) -> None:
    """The stall limit is a minute, and the test's own limit is not reached."""
    stop_at(alone, cache, stocked, 100_000)
    assert finals(cache) == []


def test_a_server_without_ranges_sends_it_all_again(alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    stop_at(alone, cache, stocked, 100_000)
    stocked.ranges = False
    assert bring(alone, cache)[0].read_bytes() == target
    assert stocked.twice(TARGET, len(target)) == 100_000


def test_another_entity_tag_starts_again(alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    stop_at(alone, cache, stocked, 100_000)
    stocked.etag_suffix = "-other"
    assert bring(alone, cache)[0].read_bytes() == target
    assert stocked.twice(TARGET, len(target)) == 100_000


def test_a_part_whose_origin_is_not_noted_is_not_continued(
    alone: Pair, cache: Path, stocked: Hub, target: bytes
) -> None:
    stop_at(alone, cache, stocked, 100_000)
    next(cache.glob("models--*/blobs/*.json")).unlink()
    assert bring(alone, cache)[0].read_bytes() == target
    assert stocked.gets(TARGET)[-1].range is None


def test_of_a_part_that_is_not_continued_nothing_stays(alone: Pair, cache: Path, stocked: Hub) -> None:
    stop_at(alone, cache, stocked, 100_000)
    next(cache.glob("models--*/blobs/*.json")).unlink()
    stocked.faults.extend([Fault(1000, "cut")] + [Fault(0, "cut")] * 20)
    with pytest.raises(LocalspecError, match="again and again"):
        bring(alone, cache)
    assert client.plan(alone, cache=cache).files[0].partial == 1000


def test_a_new_version_on_the_hub_is_fetched_from_its_beginning(
    alone: Pair, cache: Path, stocked: Hub, draft: bytes
) -> None:
    stop_at(alone, cache, stocked, 100_000)
    stocked.add(REPO, TARGET, draft)
    assert bring(alone, cache)[0].read_bytes() == draft


@pytest.mark.parametrize("shorter", [0, 1000])
def test_a_file_that_changes_under_a_plan_is_refused(
    shorter: int, alone: Pair, cache: Path, stocked: Hub, target: bytes
) -> None:
    stop_at(alone, cache, stocked, 100_000)
    plan = client.plan(alone, cache=cache)
    stocked.repositories[REPO].files[TARGET] = bytes(len(target) - shorter)
    with pytest.raises(LocalspecError, match=r"no longer what the Hub listed|not those that the Hub lists"):
        client.fetch(plan, lambda _: None, lambda: False, patience=QUICK)
    assert len(stocked.gets(TARGET)) == 2, "one stopped, one refused: trying again would not help"
    assert finals(cache) == []


def test_wrong_bytes_of_the_right_length_are_deleted(alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
    plan = client.plan(alone, cache=cache)
    stocked.repositories[REPO].files[TARGET] = target[:-1] + b"?"
    with pytest.raises(LocalspecError, match="not those that the Hub lists") as caught:
        client.fetch(plan, lambda _: None, lambda: False, patience=QUICK)
    assert "deleted" in caught.value.hint
    assert (finals(cache), parts(cache)) == ([], [])
    stocked.repositories[REPO].files[TARGET] = target
    assert bring(alone, cache)[0].read_bytes() == target


def test_a_link_in_the_place_of_a_part_is_not_written_through(
    alone: Pair, cache: Path, stocked: Hub, target: bytes
) -> None:
    victim = cache.parent / "victim"
    victim.write_text("precious")
    (file,) = client.plan(alone, cache=cache).files
    blobs = cache / f"models--{REPO.replace('/', '--')}" / "blobs"
    blobs.mkdir(parents=True)
    (blobs / f"{file.etag}.localspec.part").symlink_to(victim)
    assert bring(alone, cache)[0].read_bytes() == target
    assert victim.read_text() == "precious"


def test_a_damaged_part_is_noticed(alone: Pair, cache: Path, stocked: Hub) -> None:
    """Power was lost, and the disk holds other bytes than were written."""
    stop_at(alone, cache, stocked, 100_000)
    with parts(cache)[0].open("r+b") as file:
        file.write(b"zzzz")
    with pytest.raises(LocalspecError, match="not those that the Hub lists"):
        bring(alone, cache)
    assert (finals(cache), parts(cache)) == ([], [])


def test_what_is_no_model_gets_no_name(alone: Pair, cache: Path, hub: Hub) -> None:
    hub.add(REPO, TARGET, b"This is not a model at all.")
    with pytest.raises(LocalspecError, match="does not begin with GGUF"):
        bring(alone, cache)
    assert finals(cache) == []


def test_a_model_cut_short_by_its_owner_gets_no_name(alone: Pair, cache: Path, hub: Hub, target: bytes) -> None:
    hub.add(REPO, TARGET, target[:-5000])
    with pytest.raises(LocalspecError, match="incomplete"):
        bring(alone, cache)
    assert finals(cache) == []


def test_a_file_kept_without_lfs_is_known_by_its_git_id(alone: Pair, cache: Path, hub: Hub, target: bytes) -> None:
    blob = hub.add(REPO, TARGET, target, lfs=False)
    (path,) = bring(alone, cache)
    assert (path.read_bytes(), path.resolve().name, len(blob)) == (target, blob, 40)


class TestRedirects:
    @pytest.fixture
    def cdn(self, stocked: Hub, target: bytes) -> Iterator[Hub]:
        with Hub() as cdn:
            cdn.add(REPO, TARGET, target)
            stocked.cdn = cdn
            yield cdn

    def test_the_token_stays_with_the_hub(
        self, alone: Pair, cache: Path, stocked: Hub, cdn: Hub, target: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        assert bring(alone, cache)[0].read_bytes() == target
        assert {request.token for request in stocked.requests} == {"Bearer hf_secret"}
        assert [request.token for request in cdn.requests] == [None]

    def test_an_address_that_expired_is_asked_for_again(
        self, alone: Pair, cache: Path, stocked: Hub, cdn: Hub, target: bytes
    ) -> None:
        cdn.faults.append(Fault(100_000, "cut"))
        cdn.answer_next("/cdn/", 403)
        assert bring(alone, cache)[0].read_bytes() == target
        assert len(stocked.gets(TARGET)) == 3
        assert cdn.twice(TARGET, len(target)) == 0

    @pytest.mark.parametrize("location", ["file:///etc/hostname", "ftp://127.0.0.1/x", "data:text/plain,x"])
    def test_only_http_is_followed(self, location: str, alone: Pair, cache: Path, stocked: Hub) -> None:
        stocked.answer_next("/resolve/", 302, headers={"Location": location})
        with pytest.raises(LocalspecError, match="not followed"):
            bring(alone, cache)
        assert finals(cache) == []

    def test_https_is_not_left_for_http(self) -> None:
        with pytest.raises(LocalspecError, match="not followed"):
            answer.followed("https://hub.example/a", "http://hub.example/a")
        assert answer.followed("https://hub.example/a", "/b") == "https://hub.example/b"

    def test_a_circle_ends(self, alone: Pair, cache: Path, stocked: Hub) -> None:
        stocked.answer_next("/resolve/", 302, headers={"Location": f"{stocked.url}/a/b/resolve/c/d"}, times=50)
        with pytest.raises(LocalspecError, match="without an end"):
            bring(alone, cache)


class TestTwoAtOnce:
    def test_one_fetches_and_both_have_it(self, alone: Pair, cache: Path, stocked: Hub, target: bytes) -> None:
        found: list[bytes] = []
        plan = client.plan(alone, cache=cache)

        def pull() -> None:
            found.append(client.fetch(plan, lambda _: None, lambda: False, patience=QUICK)[0].read_bytes())

        threads = [threading.Thread(target=pull) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [target] * 3
        assert stocked.sent[TARGET] == len(target)

    def test_when_one_stops_the_other_goes_on_from_there(
        self, alone: Pair, cache: Path, stocked: Hub, target: bytes
    ) -> None:
        waits, found, seen = threading.Event(), [], []
        stocked.faults.append(Fault(100_000, "stall"))
        plan = client.plan(alone, cache=cache)
        slow = client.Patience(stall_s=60)

        def first() -> None:
            with pytest.raises(Cancelled):
                client.fetch(plan, lambda _: None, waits.is_set, patience=slow)

        def report(progress: Progress) -> None:
            seen.append(progress)
            if "another program" in progress.note:
                waits.set()

        def second() -> None:
            assert stocked.stalled.wait(30)
            found.extend(client.fetch(plan, report, lambda: False, patience=QUICK))

        threads = [threading.Thread(target=each) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found[0].read_bytes() == target
        assert seen[0].done == 100_000, "the waiting one shows what the other has"
        assert stocked.twice(TARGET, len(target)) == 0


@contextmanager
def _read_only(folder: Path) -> Iterator[None]:
    """Root may write everywhere, so for a while this is nobody."""
    folder.chmod(0o555)
    above = [path for path in folder.parents if path.stat().st_uid == os.getuid() and path != Path("/")]
    modes = [path.stat().st_mode for path in above]
    for path, mode in zip(above, modes, strict=True):
        path.chmod(mode | 0o555)
    was_root = os.geteuid() == 0
    if was_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if was_root:
            os.seteuid(0)
        folder.chmod(0o755)
        for path, mode in zip(above, modes, strict=True):
            path.chmod(mode)


class TestDisk:
    def test_a_full_disk_is_said(
        self, alone: Pair, cache: Path, stocked: Hub, target: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(self: Part, data: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch, pytest.raises(LocalspecError, match="is full") as caught:
            patch.setattr(Part, "append", refuse)
            bring(alone, cache)
        assert "scan" in caught.value.hint
        assert finals(cache) == []
        assert bring(alone, cache)[0].read_bytes() == target

    def test_a_cache_that_can_only_be_read_is_said(self, alone: Pair, cache: Path, stocked: Hub) -> None:
        cache.mkdir()
        plan = client.plan(alone, cache=cache)
        with _read_only(cache), pytest.raises(LocalspecError, match="can't be written") as caught:
            client.fetch(plan, lambda _: None, lambda: False, patience=QUICK)
        assert "HF_HUB_CACHE" in caught.value.hint

    def test_a_file_that_is_here_needs_no_writing(self, alone: Pair, cache: Path, stocked: Hub) -> None:
        before = bring(alone, cache)
        with _read_only(cache):
            assert bring(alone, cache) == before
