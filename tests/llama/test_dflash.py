"""What is particular to DFlash heads: a block at once, and states that stand where their tokens stand."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.llama.native import lc
from localspec.spec.settings import Sampling
from tests import ggufs, ggufs_heads
from tests.conftest import Load
from tests.llama.drafting import GREEDY, PROMPT, answer, head, plain, read

WARM = Sampling(temperature=1.0, top_k=0, top_p=1, min_p=0)


def test_every_known_token_is_seen_once(tmp_path: Path, load: Load) -> None:
    """This head counts the tokens of the text. Rejected ones and its own masks must not be among them."""
    model = load(str(ggufs.chain(tmp_path / "chain.gguf", {}, ctx=1024)), n_ctx=1024)
    rng, compared, text = default_rng(1), 0, [100]
    with closing(head(model, str(ggufs_heads.counting_dflash(tmp_path / "head.gguf")))) as drafter:
        while len(text) < 600:
            known = len(text) - 1
            text += rng.integers(100, 103, size=int(rng.integers(1, 25))).tolist()
            rejected = rng.integers(100, 103, size=int(rng.integers(0, 12))).tolist()
            model.decode([*text[known:], *rejected], rows=0)
            model.rewind(len(text) - 1)
            (most, first), (_, second) = [*Counter(text).most_common(2), (0, 0)][:2]
            if first > second:
                assert set(drafter.draft(np.array(text, np.int32), 4, GREEDY, rng).tokens) == {most}
                compared += 1
        assert compared > 30 and drafter.failures == 0


@pytest.mark.parametrize("markov", [False, True])
def test_a_draft_is_no_longer_than_the_block(tmp_path: Path, load: Load, markov: bool) -> None:
    """The first row of a DSpark block is a proposal too."""
    model = load(str(ggufs_heads.target(tmp_path / "target.gguf")))
    path = str(ggufs_heads.dflash(tmp_path / "head.gguf", block_size=6, markov=markov))
    truth = plain(model, PROMPT[:40], 60)
    model.rewind(0)
    with closing(head(model, path)) as drafter:
        longest = 6 if markov else 5
        assert drafter.head.longest == longest and drafter.head.too_long(longest) is None
        sentence = drafter.head.too_long(longest + 1)
        assert sentence is not None and f"clamped to {longest}" in sentence and "6 tokens" in sentence
        drafted: list[int] = []
        found = answer(
            model, drafter, PROMPT[:40], 60, k=20, watch=lambda _, done: drafted.append(len(done.drafted))
        )
        assert found == truth and max(drafted) == longest and drafter.failures == 0


def test_a_block_costs_one_pass(tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(str(ggufs_heads.target(tmp_path / "target.gguf")))
    with closing(head(model, str(ggufs_heads.dflash(tmp_path / "head.gguf")))) as drafter:
        read(model, PROMPT[:40])
        context = np.array(PROMPT[:41], np.int32)
        drafter.draft(context, 7, WARM, default_rng(0))
        real, widths = lc.llama_decode, list[int]()
        monkeypatch.setattr(lc, "llama_decode", lambda c, b: (widths.append(b.n_tokens), real(c, b))[1])
        assert len(drafter.draft(context, 7, WARM, default_rng(0)).tokens) == 7
    assert widths == [8]


def test_the_rows_of_a_block_do_not_depend_on_what_is_drawn(tmp_path: Path, load: Load) -> None:
    """So each is the distribution of its token, whatever the others are. Two masks see each other, though."""
    model = load(str(ggufs_heads.target(tmp_path / "target.gguf")))
    with closing(head(model, str(ggufs_heads.dflash(tmp_path / "head.gguf")))) as drafter:
        read(model, PROMPT[:40])
        context = np.array(PROMPT[:41], np.int32)
        drafter.draft(context, 5, WARM, default_rng(0))
        drafts = [drafter.draft(context, 5, WARM, default_rng(seed)) for seed in range(10)]
        shorter = drafter.draft(context, 2, WARM, default_rng(0))
    assert len({draft.tokens for draft in drafts}) > 5
    rows = [np.array([q.probs for q in draft.probs or ()]) for draft in drafts]
    assert all(np.array_equal(rows[0], other) for other in rows[1:])
    assert shorter.probs is not None and not np.allclose(shorter.probs[0].probs, rows[0][0])
