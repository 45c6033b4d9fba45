"""Earlier answers: what is found in them, what is kept of them, and the file that they live in."""

from __future__ import annotations

import os
import stat
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from localspec.errors import LocalspecError
from localspec.spec.corpus import FLOOR, Corpus, Guess
from localspec.spec.drafters.suffix import EARLIER, Suffix
from localspec.spec.settings import Sampling
from localspec.spec.types import Draft

V = 50_000


def corpus(*answers: Sequence[int], limit: int = 1000) -> Corpus:
    return Corpus("words", V, answers, limit=limit)


def guess(known: Corpus, *context: int, limit: int = 8) -> Guess:
    return known.guess(np.array(context, np.int32), limit)


def kept(known: Corpus) -> list[list[int]]:
    return [ids.tolist() for ids in known.answers]


def reference(answers: list[list[int]], context: list[int], limit: int) -> tuple[tuple[int, ...], int]:
    """The same by looking at every place of every answer."""
    for match in range(min(32, len(context)), 2, -1):
        end = context[-match:]
        rows = [a[i:] for a in answers for i in range(match, len(a)) if a[i - match : i] == end][-32:]
        if rows:
            break
    else:
        return (), 0
    tokens: list[int] = []
    survival, evidence = 1.0, 0
    while rows and len(tokens) < limit:
        following = [row[len(tokens)] if len(row) > len(tokens) else None for row in rows]
        best = max(reversed(following), key=following.count)
        chance = following.count(best) / (len(rows) + 1 / (match + len(tokens)))
        survival *= chance
        if best is None or survival < FLOOR:
            break
        evidence = evidence if tokens else int(8 * chance)
        rows = [row for row, token in zip(rows, following, strict=True) if token == best]
        tokens.append(best)
    return tuple(tokens), evidence


letters = st.integers(0, 1) | st.integers(0, 2)
answers = st.lists(st.lists(letters, min_size=1, max_size=30), max_size=5, unique_by=tuple)


class TestGuess:
    @given(answers, st.lists(letters, max_size=12), st.integers(0, 12))
    @example([[1, 1, 0, 0, 1, 1, 1, 1, 1], [1, 0, 1, 1, 0, 0], [0, 1, 1, 1, 0, 1]], [0, 1, 0, 1, 1, 1, 1], 1)
    def test_it_is_that_of_the_definition(self, texts: list[list[int]], context: list[int], limit: int) -> None:
        found = guess(corpus(*texts), *context, limit=limit)
        assert (found.tokens, found.evidence) == reference(texts, context, limit)
        assert 0 <= found.expected <= len(found.tokens)

    def test_three_tokens_are_a_match_and_two_are_not(self) -> None:
        known = corpus([7, 1, 2, 3, 4])
        assert guess(known, 9, 1, 2, 3).tokens == (4,)
        assert guess(known, 9, 9, 2, 3) == guess(known, 2, 3) == guess(known) == Guess()

    def test_the_longest_match_wins_then_the_most_frequent_then_the_latest(self) -> None:
        assert guess(corpus([9, 1, 2, 3, 4], [1, 2, 3, 5], [1, 2, 3, 5, 0]), 9, 1, 2, 3, limit=1).tokens == (4,)
        assert guess(corpus([1, 2, 3, 5], [1, 2, 3, 5, 0], [1, 2, 3, 4]), 1, 2, 3, limit=1).tokens == (5,)
        assert guess(corpus([1, 2, 3, 5], [1, 2, 3, 4]), 1, 2, 3, limit=1).tokens == (4,)

    def test_of_many_places_the_latest_count(self) -> None:
        old, new = ([[n, 1, 2, 3, said] for n in range(400, 500)] for said in (5, 4))
        assert guess(corpus(*old, *new[:20]), 1, 2, 3, limit=1).tokens == (4,)
        assert guess(corpus(*old, *new[:10]), 1, 2, 3, limit=1).tokens == (5,)

    def test_no_match_and_no_draft_crosses_from_one_answer_to_the_next(self) -> None:
        known = corpus([1, 2, 3], [4, 5, 6, 7])
        assert guess(known, 2, 3, 4) == Guess()
        assert guess(known, 1, 2, 3) == Guess()
        assert guess(known, 4, 5, 6).tokens == (7,)

    def test_the_first_and_the_last_tokens_are_found(self) -> None:
        assert guess(corpus([0, 0, 0, 0]), 0, 0, 0).tokens == (0,)
        assert guess(corpus([V - 1] * 4), *[V - 1] * 40).tokens == (V - 1,)

    def test_a_longer_match_is_followed_further(self) -> None:
        known = corpus(range(100))
        lengths = [len(guess(known, *range(40 - match, 40), limit=31).tokens) for match in (3, 6, 20)]
        assert lengths == sorted(set(lengths)) and lengths[-1] == 31
        assert guess(known, *range(40), limit=64).tokens == tuple(range(40, 72))

    def test_an_empty_corpus_says_nothing(self) -> None:
        assert guess(corpus(), 1, 2, 3) == guess(corpus([]), 1, 2, 3) == Guess()


class TestWhatIsKept:
    def test_answers_stay_in_order_and_the_oldest_go_first(self) -> None:
        known = corpus([1] * 4, [2] * 4, limit=10)
        known.remember([3] * 3)
        assert kept(known) == [[2] * 4, [3] * 3]
        assert guess(known, 1, 1, 1) == Guess()
        assert guess(known, 3, 3) == Guess() and guess(known, 2, 2, 2).tokens == (2,)

    def test_an_answer_that_came_again_is_kept_once_as_the_latest(self) -> None:
        known = corpus([1, 2, 3, 4], [1, 2, 3, 5])
        known.remember([1, 2, 3, 4])
        assert kept(known) == [[1, 2, 3, 5], [1, 2, 3, 4]]

    def test_of_an_answer_beyond_the_limit_the_end_is_kept(self) -> None:
        known = corpus([9, 9], limit=5)
        known.remember(range(20))
        assert kept(known) == [[15, 16, 17, 18, 19]]

    def test_nothing_is_kept_where_the_limit_is_zero(self) -> None:
        known = corpus([1, 2, 3, 4], limit=0)
        known.remember([1, 2, 3, 4])
        assert kept(known) == []

    def test_an_empty_answer_is_none(self) -> None:
        known = corpus()
        known.remember([])
        assert kept(known) == []

    def test_memory_is_at_most_40_bytes_per_token(self) -> None:
        tokens = np.random.default_rng(0).integers(0, V, 100_000).astype(np.int32)
        texts = np.split(tokens, 200)
        tracemalloc.start()
        known = corpus(*texts, limit=tokens.size)
        used, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(known.answers) == 200
        assert 12 * tokens.size < used < 40 * tokens.size

    def test_a_round_looks_at_a_bounded_number_of_places(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Thousands of places where the context stands. Comparisons are counted, not seconds."""
        known = corpus([5] * 20_000, [5, 6] * 10_000, limit=50_000)
        matches, places = Corpus._matches, list[int]()

        def counting(self: Corpus, place: int, tail: bytes, count: int) -> bool:
            places.append(place)
            return matches(self, place, tail, count)

        monkeypatch.setattr(Corpus, "_matches", counting)
        assert guess(known, *[5] * 40).tokens
        assert 0 < len(set(places)) <= len(places) < 300

    @given(
        st.lists(
            st.sampled_from([[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 6], [1, 2, 3, 7], [1, 2, 3, 4, 5, 9]]), max_size=9
        )
    )
    def test_answers_that_part_are_counted_where_they_part(self, texts: list[list[int]]) -> None:
        found = guess(corpus(*([n, *text] for n, text in enumerate(texts, 100))), 1, 2, 3)
        assert (found.tokens, found.evidence) == reference(
            [[n, *t] for n, t in enumerate(texts, 100)], [1, 2, 3], 8
        )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "words.tokens"


def load(file: Path, vocabulary: str = "words", **options: int) -> Corpus:
    return Corpus.load(file, vocabulary, V, **options)


class TestFile:
    @given(answers)
    def test_what_was_saved_is_loaded(
        self, tmp_path_factory: pytest.TempPathFactory, texts: list[list[int]]
    ) -> None:
        file = tmp_path_factory.mktemp("corpus") / "words.tokens"
        corpus(*texts).save(file)
        assert kept(load(file)) == texts

    def test_before_the_first_answer_there_is_no_file(self, file: Path) -> None:
        assert kept(load(file)) == []
        assert not file.parent.exists()

    @pytest.mark.skipif(os.name == "nt", reason="no such permissions")
    def test_nobody_else_may_read_it(self, file: Path) -> None:
        for _ in range(2):
            corpus([1, 2, 3]).save(file)
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
            assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    def test_a_smaller_limit_is_kept_when_loading(self, file: Path) -> None:
        corpus([1] * 4, [2] * 4, [3] * 4).save(file)
        assert kept(load(file, limit=8)) == [[2] * 4, [3] * 4]

    def test_two_processes_do_not_lose_each_others_answers(self, file: Path) -> None:
        one, two = load(file), load(file)
        one.remember([1, 1, 1])
        one.save(file)
        two.remember([2, 2, 2])
        two.save(file)
        one.remember([3, 3, 3])
        one.save(file)
        assert sorted(kept(load(file))) == [[1, 1, 1], [2, 2, 2], [3, 3, 3]]
        assert kept(load(file))[-1] == [3, 3, 3]

    def test_the_file_never_exceeds_the_limit(self, file: Path) -> None:
        known = corpus(limit=100)
        for i in range(30):
            known.remember([i] * 10)
            known.save(file)
        assert kept(load(file)) == [[i] * 10 for i in range(20, 30)]
        assert file.stat().st_size < 4 * (100 + 10) + 100

    def test_a_save_that_fails_leaves_the_old_file(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        corpus([1, 2, 3]).save(file)

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "replace", full)
            with pytest.raises(LocalspecError, match="can't be written \\(No space left on device\\)"):
                corpus([4, 5, 6]).save(file)
        assert [path.name for path in file.parent.iterdir()] == [file.name]
        assert kept(load(file)) == [[1, 2, 3]]

    @pytest.mark.parametrize(
        ("damage", "sentence"),
        [
            (lambda data: data[:-1], "is damaged"),
            (lambda data: b"something else", "is damaged"),
            (lambda data: b"", "is damaged"),
            (lambda data: data.replace(b"words", b"other"), "was written for another vocabulary"),
            (lambda data: data[:-4] + np.int32(V).tobytes(), "is damaged"),
            (lambda data: data[:-4] + np.int32(-2).tobytes(), "is damaged"),
        ],
        ids=["cut", "foreign", "empty", "vocabulary", "id too large", "negative id"],
    )
    def test_a_file_that_cannot_be_used_is_named(self, file: Path, damage: object, sentence: str) -> None:
        corpus([1, 2, 3]).save(file)
        file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
        for use in (load, corpus([4, 5, 6]).save):
            with pytest.raises(LocalspecError, match=sentence) as caught:
                use(file)
            assert str(file) in caught.value.message and caught.value.hint

    def test_a_folder_in_its_place_is_named(self, file: Path) -> None:
        file.mkdir(parents=True)
        with pytest.raises(LocalspecError, match="can't be read"):
            load(file)


def draft(of: Suffix, *context: int) -> Draft:
    return of.draft(np.array(context, np.int32), 8, Sampling(), np.random.default_rng(0))


class TestInSuffix:
    def test_earlier_answers_speak_where_the_conversation_is_silent(self) -> None:
        known = corpus(range(10, 20))
        found = draft(Suffix(corpus=known), 5, 10, 11, 12)
        assert found.tokens[:3] == (13, 14, 15)
        assert (found.source, found.probs) == ("suffix", None)
        assert draft(Suffix(), 5, 10, 11, 12).tokens == ()

    def test_their_evidence_is_a_class_of_its_own(self) -> None:
        known = corpus(range(10, 30))
        found = [draft(Suffix(corpus=known), *range(20 - match, 20)).evidence for match in (3, 9)]
        assert EARLIER < found[0] < found[1]
        own = [*range(10, 30), *range(10, 20)]
        assert 0 < draft(Suffix(corpus=known), *own).evidence < EARLIER

    def test_what_was_just_remembered_is_known_at_once(self) -> None:
        known = corpus()
        drafter = Suffix(corpus=known)
        assert draft(drafter, 10, 11, 12).tokens == ()
        known.remember(range(10, 20))
        assert draft(drafter, 10, 11, 12).tokens[:2] == (13, 14)

    def test_the_one_that_expects_more_is_heard(self) -> None:
        """The conversation has a match of one token, the corpus one of three."""
        context = (12, 40, 10, 11, 12)
        assert draft(Suffix(), *context).tokens[:1] == (40,)
        assert draft(Suffix(corpus=corpus(range(10, 20))), *context).tokens[:2] == (13, 14)

    def test_where_the_conversation_knows_enough_nobody_else_is_asked(self) -> None:
        class Deaf(Corpus):
            def guess(self, context: object, limit: int) -> Guess:
                raise AssertionError

        draft(Suffix(corpus=Deaf("words", V)), *range(30), *range(20))
        with pytest.raises(AssertionError):
            draft(Suffix(corpus=Deaf("words", V)), *range(30))
