"""What must hold for a whole process: it stays alive on every wrong request, and it says nothing by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests import ggufs, ggufs_mtp
from tests.conftest import Models

CONTRACT = """
import json, sys
from localspec.llama.drafters.mtp import Mtp
from localspec.llama.load import load_vocab
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec

files = json.loads(sys.argv[1])

def load(name, **options):
    rows, mtp = options.pop("max_rows", 65), options.pop("mtp", False)
    return LlamaModel.load(ModelSpec(files[name], threads=1, **({"n_ctx": 256} | options)), max_rows=rows, mtp=mtp)

model, closed = load("noise", max_rows=4), load("noise")
closed.close()
requests = {
    "more tokens than a batch": lambda: model.decode([3] * 513, rows=1),
    "more rows than outputs": lambda: model.decode([3] * 5, rows=5),
    "no tokens": lambda: model.decode([], rows=0),
    "token outside the vocabulary": lambda: model.decode([10**6], rows=1),
    "negative token": lambda: model.decode([-1], rows=1),
    "piece outside the vocabulary": lambda: model.vocab.pieces[10**6],
    "no room for an output": lambda: load("noise", max_rows=0),
    "context beyond the model": lambda: load("noise", n_ctx=10**9),
    "quantised V without flash attention": lambda: load("noise", flash_attn="off", cache_type_v="q8_0"),
    "quantised cache on odd heads": lambda: load("odd_heads", cache_type_k="q8_0"),
    "freed model": lambda: closed.decode([3], rows=1),
    "freed vocabulary": lambda: closed.vocab.tokenise("a", special=False, bos=False),
    "partial cut of a recurrent cache": lambda: (m := load("recur"), m.decode([3] * 250, rows=1), m.rewind(240)),
    "file without layers": lambda: load("no_layers"),
    "file with a repeated piece": lambda: load("repeated"),
    "vocabulary with a repeated piece": lambda: load_vocab(files["repeated"]),
    "file without a tokenizer": lambda: load_vocab(files["no_vocab"]),
    "file with odd experts": lambda: load("experts"),
    "file with an odd rope": lambda: load("rope"),
    "truncated file": lambda: load("short"),
    "prediction layers that were not loaded": lambda: Mtp(load("mtp")),
    "prediction layers that are only claimed": lambda: Mtp(load("claims", mtp=True)),
    "prediction layers of another width": lambda: Mtp(load("mtp"), ModelSpec(files["wide"])),
    "prediction layers for another cache": lambda: Mtp(load("noise"), ModelSpec(files["sharing"])),
    "unknown architecture": lambda: load("unknown"),
}
for name, request in requests.items():
    try:
        request()
        print(json.dumps([name, None]), flush=True)
    except Exception as error:
        print(json.dumps([name, type(error).__name__]), flush=True)
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)


def test_nothing_that_is_asked_of_the_wrapper_ends_the_process(models: Models, tmp_path: Path) -> None:
    def file(name: str, **options: object) -> str:
        return str(ggufs.noise(tmp_path / f"{name}.gguf", **options))  # type: ignore[arg-type]

    files = {name: models(name) for name in ("noise", "odd_heads", "recur", "unknown")} | {
        "no_layers": file("no_layers", layers=0),
        "repeated": file("repeated", pieces=ggufs.bpe(("twice", "twice"))),
        "no_vocab": file("no_vocab", extra={"tokenizer.ggml.model": "no_vocab"}),
        "experts": file("experts", extra={"llama.expert_count": 2}),
        "rope": file("rope", extra={"llama.rope.scaling.type": "weird"}),
        "short": str(tmp_path / "short.gguf"),
        "mtp": str(ggufs_mtp.qwen35(tmp_path / "mtp.gguf")),
        "claims": str(ggufs_mtp.qwen35(tmp_path / "claims.gguf", without=("",))),
        "wide": str(ggufs_mtp.qwen35_head(tmp_path / "wide.gguf", extra={"$.embedding_length": 96})),
        "sharing": str(ggufs_mtp.assistant(tmp_path / "sharing.gguf")),
    }
    Path(files["short"]).write_bytes(Path(files["noise"]).read_bytes()[:-1000])
    done = run(CONTRACT, json.dumps(files))
    answers = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, (list(answers)[-1:], done.stderr)
    assert [name for name, error in answers.items() if error is None] == []
    allowed = {"ModelError", "ModelLoadError", "UsageError", "CannotRewind", "IndexError"}
    assert set(answers.values()) <= allowed and len(answers) == CONTRACT.count("lambda:")
    assert done.stderr == ""


QUIET = """
import sys
from localspec.errors import LocalspecError
from localspec.llama import devices
from localspec.llama.jinja import render
from localspec.llama.model import LlamaModel
from localspec.model import ModelSpec

devices.list_devices(), devices.versions()
for path in sys.argv[1:]:
    try:
        model = LlamaModel.load(ModelSpec(path, threads=1, n_ctx=256))
        model.decode([3] * 200, rows=1)
        model.vocab.tokenise("text", special=True, bos=True), model.vocab.pieces, model.vocab.eog
        render(model.vocab.chat_template or "", [{"role": "user", "content": "x"}], bos="", eos="")
        model.rewind(3)
    except LocalspecError:
        pass
LlamaModel.load(ModelSpec(sys.argv[1], threads=1, n_ctx=256))  # never closed: freed at exit
"""


def test_nothing_reaches_the_terminal(models: Models) -> None:
    names = ("noise", "window", "recur", "hybrid", "emoji", "unknown", "odd_heads")
    done = run(QUIET, *(models(name) for name in names))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
