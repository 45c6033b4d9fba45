"""What is particular to EAGLE-3 heads: which token stands beside which state, and whose states they are."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng

from localspec.errors import ModelLoadError
from localspec.llama.drafters.dflash import DFlash
from localspec.llama.drafters.eagle3 import Eagle3
from localspec.model import ModelSpec
from localspec.spec.types import Round
from tests import ggufs, ggufs_heads
from tests.conftest import Load, Models
from tests.ggufs_heads import V, reduced
from tests.llama.drafting import GREEDY, PROMPT, Fresh, answer, head, read

CYCLE = tuple(range(100, 141))


def test_the_token_of_a_row_is_the_one_behind_its_state(tmp_path: Path, load: Load) -> None:
    """This head counts the tokens in its rows: all of the text but the first, each once, rejected ones never."""
    model = load(str(ggufs.chain(tmp_path / "chain.gguf", {}, ctx=1024)), n_ctx=1024)
    rng, compared, text = default_rng(1), 0, [100]
    with closing(head(model, str(ggufs_heads.counting_eagle3(tmp_path / "head.gguf")))) as drafter:
        while len(text) < 600:
            known = len(text) - 1
            text += rng.integers(100, 103, size=int(rng.integers(1, 25))).tolist()
            rejected = rng.integers(100, 103, size=int(rng.integers(0, 12))).tolist()
            model.decode([*text[known:], *rejected], rows=0)
            model.rewind(len(text) - 1)
            (most, first), (_, second) = [*Counter(text[1:]).most_common(2), (0, 0)][:2]
            if first > second:
                assert drafter.draft(np.array(text, np.int32), 1, GREEDY, rng).tokens == (most,)
                compared += 1
        assert compared > 30 and drafter.failures == 0


def test_a_head_that_knows_the_target_is_right_for_ever(tmp_path: Path, load: Load) -> None:
    table = {a: {b: 1.0} for a, b in zip(CYCLE, np.roll(CYCLE, -1).tolist(), strict=True)}
    model = load(str(ggufs.chain(tmp_path / "chain.gguf", table, ctx=2048)), n_ctx=1024)
    rounds: list[Round] = []
    with closing(head(model, str(ggufs_heads.following(tmp_path / "head.gguf", *CYCLE)))) as drafter:
        answer(model, drafter, [1, *CYCLE[:3]], 600, k=5, watch=lambda _, done: rounds.append(done))
    assert [done.accepted for done in rounds] == [5] * 100


def test_a_reduced_vocabulary_proposes_the_targets_ids(tmp_path: Path, load: Load) -> None:
    """The same weights with their rows in another order propose the same tokens; ids beyond a map never come."""
    model, order = load(str(ggufs_heads.target(tmp_path / "target.gguf"))), reduced(V)
    whole, shuffled, few = (
        Fresh(model, str(ggufs_heads.eagle3(tmp_path / f"{name}.gguf", d2t=d2t)))
        for name, d2t in (("whole", None), ("shuffled", order), ("few", order[:5]))
    )
    for start in range(0, 100, 10):
        context = PROMPT[start : start + 20]
        assert shuffled(context, 4) == whole(context, 4)
        assert set(few(context, 4)) <= set(order[:5].tolist())


def test_impossible_tokens_have_no_probability(tmp_path: Path, load: Load) -> None:
    """Those beyond the map, and only those."""
    model, order = load(str(ggufs_heads.target(tmp_path / "target.gguf"))), reduced(90)
    path = str(ggufs_heads.eagle3(tmp_path / "head.gguf", d2t=order))
    with closing(head(model, path)) as drafter:
        read(model, PROMPT[:20])
        warm = GREEDY.__class__(temperature=1.0, top_k=0, top_p=1, min_p=0)
        drafted = drafter.draft(np.array(PROMPT[:21], np.int32), 4, warm, default_rng(0))
    assert drafted.probs is not None and len(drafted.probs) == 4
    for q in drafted.probs:
        assert set(np.flatnonzero(q.probs)) == set(order.tolist())
        assert q.probs.sum() == pytest.approx(1)


def test_states_behind_the_last_layer_come_through_another_door(tmp_path: Path, models: Models, load: Load) -> None:
    """qwen35 hands them out as the input of its prediction layers. Another head state, another draft."""
    drafts = []
    for last in (1, 2):
        model = load(models("hybrid"))
        file = tmp_path / f"{last}.gguf"
        with closing(head(model, str(ggufs_heads.eagle3(file, layers=(0, 1, last))))) as drafter:
            read(model, PROMPT[:20])
            drafts.append(drafter.draft(np.array(PROMPT[:21], np.int32), 4, GREEDY, default_rng(0)).tokens)
            assert drafter.failures == 0
    assert len(drafts[0]) == len(drafts[1]) == 4 and drafts[0] != drafts[1]


def test_a_head_of_the_other_kind_says_what_it_is(tmp_path: Path, load: Load) -> None:
    model = load(str(ggufs_heads.target(tmp_path / "target.gguf")))
    for kind, build in ((Eagle3, ggufs_heads.dflash), (DFlash, ggufs_heads.eagle3)):
        path = str(build(tmp_path / f"{kind.name}.gguf"))
        with pytest.raises(ModelLoadError, match="it is a head for") as caught:
            kind(model, ModelSpec(path))
        assert "--method" in caught.value.hint
