"""What is kept of a conversation is the conversation: its tree, its words, its tokens, its settings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.chat.codec import packed, unpacked
from localspec.chat.stored import StoredAnswer
from localspec.errors import LocalspecError
from localspec.spec.types import Finish, LogProb
from tests.chat.said import ASKED, Kept, everything, spoken


@pytest.fixture
def kept(tmp_path: Path) -> Kept:
    return Kept(tmp_path / "new folder" / "sessions.db")


def test_a_session_is_read_back_as_it_was(kept: Kept) -> None:
    kept.ask("Why?", "Because of the long night.")
    kept.ask("And then?", "Then came the day.", Finish.CANCELLED)
    kept.session.named = "Nights"
    kept.session.waiting = ("one more",)
    kept.session.dropped = frozenset({1, 2})
    kept.keeper.save(kept.session)
    read = kept.read()
    assert everything(read) == everything(kept.session)
    assert read.messages() == kept.session.messages()
    for name in ("id", "title", "named", "system", "sampling", "model", "waiting", "dropped"):
        assert getattr(read, name) == getattr(kept.session, name), name


def test_figures_are_kept_to_six_digits(kept: Kept) -> None:
    made = kept.ask("Why?", "Because of the long night.").answer
    read = kept.read().path[-1].answer
    assert read.stats.tested == made.stats.tested
    assert read.stats.total_s == pytest.approx(made.stats.total_s, rel=1e-5)
    assert read.rounds[0].p == pytest.approx(made.rounds[0].p, rel=1e-5)


def test_what_else_was_considered_is_kept_with_its_names(kept: Kept) -> None:
    node = kept.ask("Why?", "Because of the long night.", None)
    rounds, pieces = spoken("And so on", begin=5)
    known = LogProb(5, -0.1234567, ((5, -0.1234567), (77, -2.5)))
    node.answer.extend((replace(rounds[0], logprobs=(known,) * 2), *rounds[1:]), pieces, ((77, " other"),))
    kept.keeper.changed(kept.session, node)
    kept.keeper.save(kept.session)
    read = kept.read().path[-1].answer
    assert read.rounds[3].logprobs == (LogProb(5, -0.123, ((5, -0.123), (77, -2.5))),) * 2
    assert read.names == {77: " other"}
    assert not any(made.logprobs for made in (*read.rounds[:3], *read.rounds[4:]))


def test_alternatives_take_some_bytes_a_token_and_without_them_none(kept: Kept) -> None:
    rounds, pieces = spoken("word " * 40)
    names = {token: f" w{token}" for token in range(40_000)}
    tops = [tuple((7919 * (5 * n + i) % 40_000, -0.37 * (i + n / 7)) for i in range(5)) for n in range(40)]
    likely = [LogProb(n, -0.5, top) for n, top in enumerate(tops)]
    with_them = [replace(made, logprobs=tuple(likely[2 * n : 2 * n + 2])) for n, made in enumerate(rounds)]
    bare, full = (sum(map(len, packed(each, pieces, names))) for each in (rounds, with_them))
    assert (full - bare) / 40 < 100, "no token shares an alternative here: this is the worst"
    assert packed(rounds, pieces, names) == packed(rounds, pieces)
    assert unpacked(*packed(rounds, pieces))[2] == {}


def test_siblings_and_the_chosen_one_are_kept(kept: Kept) -> None:
    node = kept.ask("Why?", "First.")
    again = kept.session.answer(node.parent, type(node.answer)("off"), ASKED)
    other = kept.session.say("Why not?", instead_of=node.parent)
    kept.session.step(other, -1)
    kept.session.step(again, -1)
    kept.keeper.changed(kept.session, *kept.session.nodes())
    kept.keeper.save(kept.session)
    read = kept.read()
    assert [n.id for n in read.path] == [n.id for n in kept.session.path] == [node.parent.id, node.id]
    assert [n.place for n in read.path] == [(1, 2), (1, 2)]


def test_a_message_that_was_taken_back_is_not_kept(kept: Kept) -> None:
    kept.ask("Why?", "Because.")
    node = kept.ask("Oops", "")
    for each in (node, node.parent):
        kept.session.remove(each)
        kept.keeper.removed(kept.session, each)
        kept.keeper.changed(kept.session, each.parent)
    kept.keeper.save(kept.session)
    assert everything(kept.read()) == everything(kept.session)
    assert kept.keeper.store.search("Oops") == []


def test_an_answer_that_is_not_looked_at_is_not_unpacked(kept: Kept) -> None:
    kept.ask("Why?", "Because of the long night.")
    answer = kept.read().path[-1].answer
    assert isinstance(answer, StoredAnswer)
    assert answer.text == "Because of the long night. "
    assert answer.token_ids == (0, 1, 2, 3, 4)
    assert answer.unread
    assert answer.stats.rounds == 3
    assert not answer.unread


def test_an_answer_that_goes_on_gets_its_new_part_only(kept: Kept) -> None:
    kept.ask("Why?", "Because of", None)
    session = kept.read()
    node = session.path[-1]
    node.answer.extend(*spoken("the night", begin=2))
    kept.keeper.changed(session, node)
    kept.keeper.save(session)
    assert kept.read().path[-1].answer.token_ids == (0, 1, 2, 3)
    assert kept.read().path[-1].answer.text == "Because of the night "


def test_the_latest_session_comes_first(kept: Kept) -> None:
    first = kept.session
    kept.ask("first")
    kept.clock.now += 10
    kept.session = type(first)()
    kept.ask("second")
    assert [(row.title, row.messages) for row in kept.keeper.store.sessions()] == [("second", 2), ("first", 2)]
    kept.clock.now += 10
    kept.session = first
    kept.ask("third")
    assert [row.title for row in kept.keeper.store.sessions()] == ["first", "second"]
    assert kept.keeper.store.sessions(limit=1)[0].messages == 4


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("night", {"Because of the long NIGHT."}),
        ("nig", {"Because of the long NIGHT."}),
        ("night because", {"Because of the long NIGHT."}),
        ("night day", set()),
        ("cafe", {"Un café, please"}),
        ("漢", {"これは漢字です"}),
        ("->", {"a -> b"}),
        ('"', set()),
        ("a AND NOT b*", set()),
        ("  ", set()),
        ("\ud800", set()),
    ],
)
def test_messages_are_found_by_their_words(kept: Kept, wanted: str, found: set[str]) -> None:
    for text in ("Because of the long NIGHT.", "Un café, please", "これは漢字です", "a -> b"):
        kept.ask(text)
    assert {hit.line for hit in kept.keeper.store.search(wanted)} == found


def test_what_was_found_says_where(kept: Kept) -> None:
    node = kept.ask("Why?", "Once. " * 300 + "The needle. " + "More. " * 300)
    (hit,) = kept.keeper.store.search("needle")
    assert (hit.session, hit.node, hit.role, hit.title) == (kept.session.id, node.id, "assistant", "Why?")
    assert "needle" in hit.line
    assert len(hit.line) < 300


def test_a_deleted_session_leaves_nothing(kept: Kept) -> None:
    kept.ask("Why?", "Because of the long night.")
    store = kept.keeper.store
    store.delete(kept.session.id)
    assert store.sessions() == []
    assert store.search("night") == []
    with pytest.raises(LocalspecError, match="no longer there"):
        store.read(kept.session.id)
    store.close()
    assert b"night" not in (store.path.read_bytes() if store.path else b"")


@pytest.mark.parametrize(
    "text",
    ["", "\x00a\x00b", "\ud83d half", "\u202eabc", "x" * 1_000_000],
    ids=["empty", "NUL", "half a character", "bidirectional", "long"],
)
def test_any_text_can_be_kept(kept: Kept, text: str) -> None:
    kept.ask("Why? " + text, text)
    kept.keeper.store.search("Why")
    assert kept.keeper.saved
    said = kept.read().path[0].message
    assert said is not None
    assert said.text == ("Why? " + text).replace("\ud83d", "?")


def test_only_the_owner_may_read_the_file(kept: Kept) -> None:
    kept.ask("Why?")
    path = kept.keeper.store.path
    assert path is not None
    for file in path.parent.iterdir():
        assert file.stat().st_mode & 0o077 == 0, file


def test_a_model_and_a_title_of_no_utf_8_can_be_kept(kept: Kept) -> None:
    """What the name of a file may bring along."""
    kept.session.model = "\udcff.gguf"
    kept.ask("Why?", "Because.")
    kept.keeper.store.rename(kept.session.id, "\udcfe")
    assert [(row.title, row.model) for row in kept.keeper.store.sessions()] == [("?", "?.gguf")]
