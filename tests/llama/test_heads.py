"""Which heads fit which targets: told from the two files in one sentence, and never by the end of the process."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localspec import gguf
from localspec.errors import ModelLoadError
from localspec.llama import heads
from tests.ggufs import Pieces, bpe
from tests.ggufs_heads import HEADS, V, dflash, eagle3, target
from tests.llama.test_process import run

Build = Callable[[Path], Path]


def renamed(count: int) -> Pieces:
    """The target's vocabulary with the first pieces behind the special ones called otherwise."""
    pieces = bpe()
    names = tuple(f"<|name{i}|>" for i in range(count))
    return replace(pieces, texts=(*pieces.texts[:3], *names, *pieces.texts[3 + count :]))


def ids(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# What is wrong with the file itself.
FAULTS: dict[str, tuple[Build, str]] = {
    "a chat model": (target, "it is not an EAGLE-3 or DFlash head"),
    "two layers read": (partial(eagle3, extra={"$.target_layers": [1, 2]}), "this one names 2"),
    "two layers of its own": (partial(eagle3, extra={"$.block_count": 2}), "this one claims 2"),
    "odd attention": (
        partial(eagle3, extra={"$.attention.key_length": 32, "$.attention.value_length": 16}),
        "keys of 32 and values of 16",
    ),
    "a map to nowhere": (partial(eagle3, d2t=ids(5, V)), "the map of its reduced vocabulary is damaged"),
    "a map below zero": (partial(dflash, d2t=ids(5, -1)), "the map of its reduced vocabulary is damaged"),
    "a map of short numbers": (partial(eagle3, d2t=np.array([5, 6], np.int32)), "map of its reduced vocabulary"),
    "a map without an output": (
        partial(eagle3, own=False, d2t=ids(5, 6), drop="output.weight"),
        "its reduced vocabulary has no output of its own",
    ),
    "no layers read": (partial(dflash, layers=(-1, 2)), "which layers of its target it reads"),
    "no mask": (partial(dflash, extra={"tokenizer.ggml.mask_token_id": V}), "it has no mask token"),
    "an endless block": (partial(dflash, block_size=65), "its blocks have 65 tokens; 2 to 64 are supported"),
    "no block": (partial(dflash, block_size=1), "its blocks have 1 tokens"),
    "DFlash2": (partial(dflash, extra={"$.selector_top_k": 4}), "DFlash2 head, which localspec does not support"),
    "DeepSeek-V4": (
        partial(dflash, extra={"$.hyper_connection_count": 4}),
        "DeepSeek-V4, which localspec does not",
    ),
    "no tokenizer": (partial(eagle3, extra={"tokenizer.ggml.model": "no_vocab"}), "it carries no tokenizer"),
    "a piece twice": (partial(eagle3, pieces=bpe(("twice", "twice"))), "its vocabulary holds 'twice' twice"),
}

# What is wrong between the file and a target of four layers, width 64 and V pieces.
MISFITS: dict[str, tuple[Build, str]] = {
    "another width": (partial(eagle3, target_width=96), "trained on a model of width 96, and noise has 64"),
    "another width of a block": (partial(dflash, embd=96), "trained on a model of width 96, and noise has 64"),
    "a layer too deep": (partial(eagle3, layers=(1, 2, 5)), "it reads layer 5, and noise has 4 layers"),
    "behind the last": (partial(eagle3, layers=(1, 2, 4)), "what leaves the last layer, and llama.cpp can't give"),
    "behind the last of a block": (partial(dflash, layers=(4,)), "what leaves the last layer"),
    "borrowed embeddings of another width": (partial(eagle3, own=False, embd=96), "lacks embeddings of its own"),
    "more pieces": (
        partial(eagle3, pieces=bpe(("more",))),
        f"its vocabulary has {V + 1} pieces, that of noise {V}",
    ),
    "other pieces": (partial(dflash, pieces=renamed(200)), "of its vocabulary are pieces of"),
}


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(target(tmp_path_factory.mktemp("target") / "target.gguf"))


@pytest.mark.parametrize("case", FAULTS)
def test_a_head_that_fits_nothing_says_why(tmp_path: Path, four: str, case: str) -> None:
    build, reason = FAULTS[case]
    with pytest.raises(ModelLoadError) as caught:
        heads.read(str(build(tmp_path / "head.gguf")))
    assert reason in caught.value.reason and caught.value.hint


@pytest.mark.parametrize("case", MISFITS)
def test_a_head_for_another_model_says_why(tmp_path: Path, four: str, case: str) -> None:
    build, reason = MISFITS[case]
    path = str(build(tmp_path / "head.gguf"))
    heads.read(path)
    with pytest.raises(ModelLoadError) as caught:
        heads.fit(path, gguf.read(four))
    assert reason in caught.value.reason and caught.value.hint == "Use the model that this head was trained for."


@pytest.mark.parametrize("name", HEADS)
def test_a_head_that_fits_is_described(tmp_path: Path, four: str, name: str) -> None:
    found = heads.fit(str(HEADS[name](tmp_path / "head.gguf")), gguf.read(four))
    assert found.kind == found.header.architecture and found.layers == (1, 2, 3) and found.width == 64
    assert found.longest == {"eagle3": None, "dspark": 8}.get(
        name.removesuffix("_borrows").removesuffix("_reduced"), 7
    )
    assert found.causal == (found.kind == "eagle3" or name == "dflash_causal")


def test_a_damaged_file_says_so(tmp_path: Path) -> None:
    path = eagle3(tmp_path / "head.gguf")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelLoadError, match="incomplete"):
        heads.read(str(path))


@pytest.mark.parametrize(
    ("arch", "refused"), [("llama", False), ("qwen3", False), ("gemma3", True), ("qwen2", True), ("phi3", True)]
)
def test_targets_whose_states_cannot_be_read(tmp_path: Path, arch: str, refused: bool) -> None:
    """On those that are refused llama.cpp ends the process in the first decode."""
    head = heads.read(str(eagle3(tmp_path / "head.gguf")))
    reason = heads.misfit(head, gguf.read(str(target(tmp_path / "target.gguf", arch=arch))))
    assert (reason is not None) == refused
    if refused:
        assert (
            reason
            == f"llama.cpp can't read the hidden states of a '{arch}' model, so no eagle3 head can draft for it"
        )


def test_prediction_layers_are_not_counted_as_layers(tmp_path: Path) -> None:
    extra = {"llama.nextn_predict_layers": 1}
    header = gguf.read(str(target(tmp_path / "target.gguf", extra=extra)))
    assert heads.depth(header) == 3
    head = heads.read(str(eagle3(tmp_path / "head.gguf")))
    assert "what leaves the last layer" in str(heads.misfit(head, header))


def test_a_few_renamed_pieces_do_no_harm(tmp_path: Path, four: str) -> None:
    path = str(dflash(tmp_path / "head.gguf", pieces=renamed(2)))
    assert heads.fit(path, gguf.read(four)).kind == "dflash"


CONTRACT = """
import json, sys
import numpy as np
from numpy.random import default_rng
from localspec.errors import ModelLoadError
from localspec.llama.drafters.dflash import DFlash
from localspec.llama.drafters.eagle3 import Eagle3
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec
from localspec.spec.settings import Sampling

target, bad, good = json.loads(sys.argv[1])
load = lambda: LlamaModel.load(ModelSpec(target, threads=1, n_ctx=256))
greedy = Sampling(temperature=0)
text = np.arange(5, 60, dtype=np.int32)

def draft(drafter, context=text, limit=4):
    return len(drafter.draft(np.asarray(context, np.int32), limit, greedy, default_rng(0)).tokens)

model = load()
for name, (kind, path) in bad.items():
    try:
        {"eagle3": Eagle3, "dflash": DFlash}[kind](model, ModelSpec(path))
        print(json.dumps([name, "opened"]), flush=True)
    except ModelLoadError as error:
        print(json.dumps([name, "refused"]), flush=True)
for kind, path in good.items():
    cls = Eagle3 if kind == "eagle3" else DFlash
    drafter = cls(model, ModelSpec(path), unsure=0.0)
    model.rewind(0)
    model.decode(text[:-1], rows=0)
    seen = [draft(drafter, limit=200), draft(drafter, [10**6] * 9), draft(drafter, [-1]), draft(drafter, [])]
    # A last token that the vocabulary does not have.
    seen += [draft(drafter, [*text[:-1], token]) for token in (10**6, -1)] + [draft(drafter)]
    drafter.close()
    print(json.dumps([kind, seen, draft(drafter), drafter.failures]), flush=True)
    # The target goes first, with the head still open; and both are forgotten.
    other = load()
    late = cls(other, ModelSpec(path))
    other.decode(text[:-1], rows=0)
    other.close()
    print(json.dumps([kind + " after its target", draft(late)]), flush=True)
    late.close()
    forgotten = load()
    cls(forgotten, ModelSpec(path))
    del forgotten
model.decode([5], rows=1)
print(json.dumps(["alive", True]), flush=True)
"""


def test_no_head_ends_the_process(tmp_path: Path, four: str) -> None:
    def written(name: str, build: Build) -> list[str]:
        path = str(build(tmp_path / f"{name}.gguf"))
        return ["eagle3" if gguf.read(path).architecture == "eagle3" else "dflash", path]

    bad = {name: written(name, build) for name, (build, _) in (FAULTS | MISFITS).items()}
    # Files that only llama.cpp finds fault with.
    bad["no output norm"] = written("x", partial(eagle3, drop="output_norm.weight"))
    bad["no fusion"] = written("y", partial(dflash, drop="fc.weight"))
    good = {name: str(HEADS[name](tmp_path / f"{name}.gguf")) for name in ("eagle3", "dflash")}
    done = run(CONTRACT, json.dumps([four, bad, good]))
    answers: dict[str, Any] = {line[0]: line[1:] for line in map(json.loads, done.stdout.splitlines())}
    assert done.returncode == 0, (list(answers)[-1:], done.stderr)
    assert {name: answers[name] for name in bad} == {name: ["refused"] for name in bad}
    limit = {"eagle3": 200, "dflash": 7}
    for kind in good:
        seen, closed, failures = answers[kind]
        assert seen[0] <= limit[kind] and seen[1:6] == [0] * 5 and seen[6] == 4
        assert closed == 0 and failures >= 2
        assert answers[f"{kind} after its target"] == [0]
    assert answers["alive"] == [True] and done.stderr == ""
